# The command under valgrind: training to the end, stopped and resumed, and the commands that read the run. No error, and
# no block that nothing points to. f32 on the CPU backend at level plain and on the reference backend, one thread: valgrind
# 3.19 knows no AVX-512, and does not see which memory OpenMP has freed in a second thread.
. "$(dirname "$0")/lib.sh"

command -v valgrind >/dev/null || skips valgrind "not installed (Debian package valgrind)"

watched="valgrind --quiet --error-exitcode=99 --leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite"

# clean STATUS ARGUMENT...: dawn9 under valgrind ends with this status, without an error or a leak.
clean() {
    expected=$1
    shift
    observe $watched --log-file="$scratch/valgrind" "$dawn9" "$@"
    [ $status = "$expected" ] || fail "status $status, $expected expected: $*"
    [ ! -s "$scratch/valgrind" ] || { fail "valgrind on $*"; head -n 60 "$scratch/valgrind"; }
}

tiny | sed 's/^backend: .*/backend: cpu\nbackend_options: {cpu_level: plain}/; s/epochs: 2/epochs: 0.75/; s/\[0, 50%, end\], values: \[0, 0.4, 0\]/[0, end], values: [0.4, 0]/' >cpu.yaml
sed 's/^backend: .*/backend: reference/; /^backend_options/d' cpu.yaml >reference.yaml

# Valgrind finds planted errors: a read of uninitialised memory, and a lost block.
printf '#include <stdlib.h>\nint main(int n, char **a) { (void)a; char *p = malloc(8); return n > 1 ? (p = 0, 0) : p[3] ? 1 : (free(p), 0); }\n' >bad.c
"${CC:-cc}" -g -O0 -o bad bad.c || fail "the program with errors does not compile"
for words in "" lost; do
    observe $watched ./bad $words
    [ $status = 99 ] || fail "valgrind overlooks an error planted ($words)"
done

for backend in cpu reference; do
    clean 0 train $backend.yaml --out $backend
done
clean 0 config cpu.yaml
clean 0 eval cpu
clean 0 export cpu/model.safetensors cpu.onnx
clean 0 report cpu
clean 0 compare cpu reference
clean 0 data preview cpu.yaml --out preview.png
clean 0 predict cpu preview.png

# Interrupted after its first epoch: a checkpoint stays, and training resumes from it.
sed 's/epochs: 0.75/epochs: 3/' cpu.yaml >long.yaml
observe signalled INT long/events.jsonl $watched --log-file="$scratch/valgrind" "$dawn9" train long.yaml --out long
[ $status = 130 ] && [ ! -s "$scratch/valgrind" ] && [ -s long/checkpoint.safetensors ] || { fail "interrupted: status $status"; head -n 60 "$scratch/valgrind"; }
clean 0 train long.yaml --out long --resume

# Rejected input leaks nothing either.
printf 'train: {epochs: {}}\n' >wrong.yaml
clean 2 config wrong.yaml
head -c 1000 cpu/model.safetensors >cut.safetensors
clean 3 eval cut.safetensors
clean 3 predict cpu cut.safetensors
verdict
