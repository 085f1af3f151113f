"""Settings under torch.fx's names, which tracers of libraries read; fxcore itself prints no progress."""

disable_progress = True
verbose_progress = False
# A tracer's `record_stack_traces` is off by default; tracers that switch it on ask here whether they may.
do_not_emit_stack_traces = False
