"""From a subject, whatever the user hands over, to an fxcore.GraphModule."""
