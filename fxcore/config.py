"""Settings under torch.fx's names. Tracers of libraries read them; fxcore itself prints no progress."""

disable_progress = True
verbose_progress = False
# A tracer's `record_stack_traces` is off by default. Tracers that switch it on read this permission.
do_not_emit_stack_traces = False
