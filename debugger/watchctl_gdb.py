"""watchctl's commands for gdb:  (gdb) source .../watchctl_gdb.py   or in ~/.gdbinit. See watchctl_session.py."""
import os
import sys

import gdb

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import watchctl_session as session  # noqa: E402

WATCHES = session.Watches()
RED_ZONE = 128


def stopped_process():
    thread = gdb.selected_thread()
    if not gdb.selected_inferior().pid or not thread:
        raise session.Trouble("no process is being debugged: run, start or attach first")
    if thread.is_running():
        raise session.Trouble("the process must be stopped to be asked where the variable is: interrupt it first")
    return gdb.selected_inferior().pid


def place(expr):
    """(address, size) of what @expr is here and now; a bare address has no size."""
    value = gdb.parse_and_eval(expr)
    kind = value.type.strip_typedefs()
    if value.is_optimized_out:
        raise session.Trouble("%s is optimised out here" % expr)
    if kind.code == gdb.TYPE_CODE_FUNC:
        return int(value.address), None
    if value.address is None:
        if value.is_lazy or kind.code not in (gdb.TYPE_CODE_INT, gdb.TYPE_CODE_PTR) or expr[:1].isalpha():
            raise session.Trouble("%s is in a register here, or a value without a place: a debug register watches memory" % expr)
        return int(value) & (1 << 64) - 1, None
    return int(value.address), kind.sizeof


def is_local(address):
    """In the selected frame's part of the stack, or below it, where a function that calls none may put its own?"""
    frame, caller = gdb.selected_frame(), gdb.selected_frame().older()
    if not caller:
        return False
    low = int(frame.read_register("rsp")) - (RED_ZONE if frame.level() == 0 else 0)
    return low <= address < int(caller.read_register("rsp"))


class FrameLeft(gdb.FinishBreakpoint):
    """A local variable is watched as long as its frame lives; the next one there belongs to somebody else."""

    def __init__(self, watch):
        super().__init__(gdb.selected_frame(), internal=True)
        self.silent = True
        self.watch = watch

    def stop(self):
        if self.watch.is_running():
            self.watch.frame_left = True
            self.watch.stop()
        return False

    def out_of_scope(self):
        self.stop()


def show(text):
    """At once: gdb keeps what goes to a pipe until it has nothing else to do."""
    gdb.write(text)
    gdb.flush()


def command(name, completer):
    """A function from the words behind the command to what is printed, as a command of gdb."""
    def define(function):
        class Command(gdb.Command):
            def __init__(self):
                super().__init__(name, gdb.COMMAND_DATA, completer)

            def invoke(self, text, from_tty):
                try:
                    show(function(text))
                except (session.Trouble, gdb.error) as e:
                    raise gdb.GdbError("%s: %s" % (name, e)) from e

        Command.__doc__ = function.__doc__
        Command()
        return function
    return define


@command("watchctl-arm", gdb.COMPLETE_EXPRESSION)
def arm(text):
    """Record every access to EXPR while the program runs on: watchctl-arm EXPR [-r|-w|-rw] [watchctl's options].

EXPR is evaluated in the selected frame, once; a local variable is watched until its frame is left.
Nothing stops. `watchctl-sites' and `watchctl-events' show what was recorded, `watchctl-disarm' ends it."""
    expr, options = session.split(text)
    pid = stopped_process()
    where = place(expr)
    watch = WATCHES.arm(pid, expr, where, options)
    said = "%s\n    %s, log %s\n" % (watch.title, watch.threads, watch.log)
    with gdb.with_parameter("backtrace past-main", True):
        if not is_local(where[0]):
            return said
        try:
            watch.left = FrameLeft(watch)
        except (ValueError, gdb.error):
            return said + "    a local variable; that its frame is left will not be noticed\n"
    return said + "    a local variable: until its frame is left\n"


@command("watchctl-disarm", gdb.COMPLETE_NONE)
def disarm(text):
    """End watch N, or all of them: watchctl-disarm [N]. What was recorded stays."""
    return WATCHES.disarm(text)


@command("watchctl-sites", gdb.COMPLETE_NONE)
def sites(text):
    """The places that accessed the variable, counted: watchctl-sites [N] [options of watchctl report]."""
    return WATCHES.sites(text)


@command("watchctl-events", gdb.COMPLETE_NONE)
def events(text):
    """Each recorded access, with its stack: watchctl-events [N] [options of watchctl report]."""
    return WATCHES.events(text)


def on_exited(event):
    """The end of the process, or of debugging it: gdb calls both so."""
    show(WATCHES.process_ended() + WATCHES.still_armed())


gdb.events.exited.connect(on_exited)
