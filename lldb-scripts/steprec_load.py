"""Loads libsteprec.so into the LLDB that imports this file: see steprec.lldb. WATCHCTL_LIBSTEPREC names another one."""
import glob
import os

NAME = "libsteprec.so"


def candidates():
    here = os.path.dirname(os.path.abspath(__file__))
    named = os.environ.get("WATCHCTL_LIBSTEPREC")
    if named:
        return [named]
    above = os.path.dirname(here)
    prefix = os.path.dirname(os.path.dirname(above))  # installed: PREFIX/share/watchctl/lldb
    built = glob.glob(os.path.join(above, "build*", "lib", NAME))
    return [
        os.path.join(here, NAME),
        os.path.join(prefix, "lib", "watchctl", NAME),
        os.path.join(prefix, "lib", NAME),
        os.path.join(above, "build", "lib", NAME),
        *sorted(built, key=os.path.getmtime, reverse=True),
    ]


def __lldb_init_module(debugger, internal_dict):
    if debugger.GetCommandInterpreter().CommandExists("steprec"):
        return
    for path in candidates():
        if os.path.exists(path):
            debugger.HandleCommand('plugin load "%s"' % path)
            return
    print("error: %s is not there: run make, or say where it is by WATCHCTL_LIBSTEPREC" % NAME)
