"""Runs a command with its standard output on a terminal of 120 columns, and sends it a signal as soon as its output
matches a pattern, so that a test need not know how fast the machine is. The output is printed as lines; the exit status
is the command's, or 128 plus the number of the signal that ended it.

usage: interrupt.py SIGNAL PATTERN COMMAND..."""
import fcntl, os, pty, re, signal, struct, subprocess, sys, termios

number, pattern, command = getattr(signal, "SIG" + sys.argv[1]), sys.argv[2].encode(), sys.argv[3:]
terminal, shown = pty.openpty()
fcntl.ioctl(shown, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 120, 0, 0))
child = subprocess.Popen(command, stdout=shown, env=dict(os.environ, TERM="xterm", NO_COLOR="1"))
os.close(shown)
seen, sent = b"", False
while True:
    try:
        piece = os.read(terminal, 65536)
    except OSError:  # no process has the terminal open any more
        break
    seen += piece
    if not sent and re.search(pattern, seen):
        sent = True
        child.send_signal(number)
print(re.sub("[\r\n]+", "\n", seen.decode()))
code = child.wait()
sys.exit(code if code >= 0 else 128 - code)
