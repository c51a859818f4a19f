# Runs on a terminal: a live line narrower than the terminal, no escape codes without a terminal, Ctrl-C once and twice.
. "$(dirname "$0")/lib.sh"
tiny >shown.yaml
{ tiny | slower | sed 's/epochs: 2/epochs: 5000/'; echo 'eval: {every: 0}'; } >endless.yaml

tiny | slower | sed 's/\[4, 4, 8, 8\]/[32, 32, 64, 64]/' >slow.yaml # slow steps

# on_terminal COLUMNS KEYS COMMAND...: runs the command on a pseudo-terminal of that width, and presses Ctrl-C KEYS
# times. The first press comes when $after has been shown, the second a second after the answer to the first. The
# command is stopped in that second, so that it cannot finish its step. Its status must be 130 after Ctrl-C, else 0.
# $out gets the output as it came, $screen the lines without codes, one for each return of the cursor to the left.
screen=$scratch/screen
export after='[\r\n]    1 +[0-9]' # the first epoch's row
cat >"$scratch/terminal.py" <<'PYTHON'
import fcntl, os, pty, re, select, signal, struct, sys, termios, time
columns, keys, out, screen, command = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4], sys.argv[5:]
child, terminal = pty.fork()
if child == 0:
    fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    os.execvp(command[0], command)
seen, pressed, until = b"", 0, time.monotonic() + 240
while time.monotonic() < until:
    if select.select([terminal], [], [], 0.1)[0]:
        try:
            piece = os.read(terminal, 65536)
        except OSError:
            break
        if not piece:
            break
        seen += piece
    if pressed < keys and re.search(os.environ["after"].encode(), seen) and (pressed == 0 or b"Ctrl-C again" in seen):
        if pressed:  # within a second it would count as a copy of the first
            os.kill(child, signal.SIGSTOP)
            time.sleep(1.1)
        os.write(terminal, b"\x03")
        os.kill(child, signal.SIGCONT)
        pressed += 1
else:
    os.kill(child, 9)
open(out, "wb").write(seen)
plain = re.sub(rb"\x1b\[[0-9;]*m", b"", seen).decode()
open(screen, "w").write(re.sub(r"[\r\n]+", "\n", plain))
code = os.waitpid(child, 0)[1]
sys.exit(os.WEXITSTATUS(code) if os.WIFEXITED(code) else 99)
PYTHON
on_terminal() {
    width=$1 keys=$2 expected=130
    [ "$2" -gt 0 ] || expected=0
    shift 2
    rm -f "$screen"
    observe python3 "$scratch/terminal.py" "$width" "$keys" "$scratch/shown" "$screen" "$@"
    mv "$scratch/shown" "$out"
    [ $status = $expected ] || fail "status $status, $expected expected: $*"
}
screen_shows() { has "$screen" "$@"; }
screen_hides() { lacks "$screen" "$@"; }
widest() { awk -v from="$1" '$0 ~ from && length > n { n = length } END { print n + 0 }' "$screen"; }
codes() { grep -c "$(printf '\033')" "$out"; }
export TERM=xterm

# ---- wide: everything, in colour ----
on_terminal 120 0 "$dawn9" train shown.yaml --out wide
screen_shows '^reading data \.\.\.' '^first step \.\.\.'
screen_shows '^  1/2 \[[#.]{20}\]  loss [0-9.]+  [0-9]+ images/s  [0-9]:[0-9]{2} left'
screen_shows '^  2/2 \[[#.]{20}\]  loss [0-9.]+  eval loss [0-9.]+  accuracy [0-9.]+% plain  [0-9]+ images/s  '
screen_shows '^epoch  train loss  accuracy  with TTA  images/s  seconds$'
[ "$(codes)" -gt 0 ] || fail "no colour"
# Two rows; accuracy with TTA only in the last one.
[ "$(grep -Ec '^    1 +[0-9.]+ +[0-9.]+ +- +[0-9]+ +[0-9.]+$|^    2 +[0-9.]+ +[0-9.]+ +[0-9.]+ +[0-9]+ +[0-9.]+$' "$screen")" = 2 ] ||
    fail "the rows are not two, the second with TTA"
[ "$(widest '^(time|    )')" -lt 120 ] || fail "the clocks are $(widest '^(time|    )') columns wide"

# ---- evaluations move the live line ----
on_terminal 120 0 "$dawn9" train shown.yaml --without flip_tta --set data.synthetic_test=4000 --out evaluated
screen_shows '^  1/2 .*  evaluating [0-9]+%'

# ---- narrow: no wrapping; epoch and time left are shown, on 40 columns the loss too ----
for width in 24 40; do
    on_terminal $width 0 "$dawn9" train shown.yaml --out narrow$width
    [ "$(widest '^ +[12]/2')" -gt 0 ] || fail "no live line at $width columns"
    [ "$(widest '^(reading| +[12]/2| +[12]  |epoch)')" -lt $((width > 37 ? width : 38)) ] || fail "wider than $width columns"
    [ "$(widest '^ +[12]/2')" -lt $width ] || fail "the live line is $(widest '^ +[12]/2') wide on $width columns"
    screen_shows '^  [12]/2.*[0-9]:[0-9]{2} left'
done
screen_shows '^  [12]/2 \[[#.]+\]  loss [0-9.]+  [0-9]:[0-9]{2} left'
screen_shows '^epoch  train loss  accuracy  with TTA$'
screen_shows '^           process_seconds '

# ---- no colour, no terminal, quiet, JSON ----
on_terminal 80 0 env NO_COLOR=1 "$dawn9" train shown.yaml --out plain
[ "$(codes)" = 0 ] || fail "colour in spite of NO_COLOR"
screen_shows '^  1/2 \['
on_terminal 80 0 env TERM=dumb "$dawn9" train shown.yaml --out dumb
[ "$(codes)" = 0 ] || fail "codes on a dumb terminal"
screen_hides '1/2 \['
screen_shows '^    2  '
on_terminal 80 0 "$dawn9" train shown.yaml --out quiet --quiet
screen_hides '1/2 \[' '^epoch'
screen_shows '^accuracy   '
on_terminal 80 0 "$dawn9" train shown.yaml --out json --json
json "$screen" 'd["steps"] == 8'
accepts "$dawn9" train shown.yaml --out pipe
if grep -q "$(printf '[\033\r]')" "$out"; then fail "codes in a pipe"; fi
[ "$(sed -n 3p "$out" | cut -c1-6)" = '    1 ' ] || fail "more than header and rows in a pipe"

# ---- Ctrl-C: once writes a checkpoint, twice ends at once ----
on_terminal 80 1 "$dawn9" train endless.yaml --out 'a run'
screen_shows 'stopping after the current batch'
screen_shows '^about [0-9.]+ (minutes|hours)( \([0-9.]+ to [0-9.]+\))? with evaluations, by the first steps$'
screen_shows "^dawn9: interrupted before step [0-9]+ of 20000: a checkpoint was written; --resume continues: $dawn9 train endless.yaml --out 'a run' --resume\$"
[ -f 'a run/checkpoint.safetensors' ] && [ ! -e 'a run/result.json' ] || fail "an interrupted run left: $(ls 'a run')"
after='with evaluations|[\r\n]    2 +[0-9]'
minutes=$(sed -n 's/^about \([0-9]*\) minutes.*/\1/p' "$screen") # for 5000 epochs; now as many as take 75 seconds:
on_terminal 80 1 "$dawn9" train endless.yaml --epochs $((5000 * 5 / (${minutes:-1} * 4))) --out short
screen_hides '^about 1 minutes'
after='1/2 \[' # the first step is done, the second begins
on_terminal 80 2 "$dawn9" train slow.yaml --set 'model.channels=[64, 64, 128, 128]' --out twice
screen_shows 'stopping after the current batch; Ctrl-C again after one second stops at once$'
screen_shows '^stopped at once; steps lost since the last checkpoint: [1-3]$'
screen_hides 'interrupted before'
[ ! -e twice/checkpoint.safetensors ] || fail "Ctrl-C twice waited for a checkpoint"

# ---- names of arms that do not fit are cut, not wrapped; what tells two arms apart stays ----
sed 's/, flip_tta: {}//' shown.yaml >plain.yaml # accuracies without "with TTA"
printf 'config: plain.yaml\nseeds: 1\narms: {a-name-of-some-length: {}}\ngrid: {train.epochs: [0.5, 1]}\n' >grid.yaml
for width in 80 60; do
    on_terminal $width 0 "$dawn9" experiment grid.yaml --out grid$width
    [ "$(widest '^ +[12]/2  a-name')" -lt $width ] || fail "a finished run takes $(widest '^ +[12]/2  a-name') of $width columns"
    for epochs in 0.5 1; do
        [ $width = 60 ] || screen_shows "2  a-name-of-some-length,train.epochs=$epochs *  seed 1  "
        [ $width = 80 ] || screen_shows "2  a-name-.*\.\..*=$epochs  seed 1  "
    done
done

# ---- the learning rate range test ----
on_terminal 120 0 "$dawn9" train shown.yaml --batch-size 8 --find-lr --out rates
screen_shows '^reading data, choosing kernels \.\.\.'
screen_shows '^ *[0-9]+/120  lr [0-9.e+-]+  loss [0-9.]+  [0-9]:[0-9]{2} left'
on_terminal 24 0 "$dawn9" train shown.yaml --batch-size 8 --find-lr --out narrow-rates
[ "$(widest '/120  ')" -gt 0 ] && [ "$(widest '/120  ')" -lt 24 ] || fail "the line of rates is $(widest '/120  ') wide on 24 columns"
on_terminal 80 0 "$dawn9" train shown.yaml --batch-size 8 --find-lr --quiet --out quiet-rates
screen_hides '/120|reading'

# ---- Ctrl-C on an experiment with two workers: one message ----
cat >two.yaml <<'Y'
title: two
config: slow.yaml
seeds: 2
set: {train.epochs: 1000}
arms: {a: {}}
Y
after='about [0-9:]+ left: a seed 1 [0-9]+%, a seed 2 [0-9]+%' # both workers have begun
on_terminal 80 1 "$dawn9" experiment two.yaml --workers 2 --out answered
screen_shows '^about [0-9:]+ left: a seed 1 [0-9]+%, a seed 2 [0-9]+%'
[ "$(grep -c 'stopping after the current batch' "$screen")" = 1 ] || fail "an experiment answers $(grep -c 'stopping after' "$screen") times"
verdict
