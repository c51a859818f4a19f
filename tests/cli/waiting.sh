# Commands that compute restart themselves so that waiting threads sleep soon, unless the user chose; others start once.
. "$(dirname "$0")/lib.sh"
unset OMP_WAIT_POLICY GOMP_SPINCOUNT KMP_BLOCKTIME
tiny | slower | sed 's/epochs: 2/epochs: 200/' >long.yaml

# ---- environment and name of the training process ----
trains() { # FOLDER NAME=VALUE...: records a run's environment, words and name after its first epoch, and interrupts it
    folder=$1
    shift
    env "$@" "$dawn9" train long.yaml --out "$folder" --quiet >"$out" 2>"$err" &
    child=$!
    until_written "$folder/events.jsonl" $child
    [ -s "$folder/events.jsonl" ] || fail "$folder: no epoch was trained"
    tr '\0' '\n' <"/proc/$child/environ" | grep -E '^(OMP_WAIT_POLICY|GOMP_SPINCOUNT|KMP_BLOCKTIME)=' >"$folder/policy"
    tr '\0' ' ' <"/proc/$child/cmdline" >"$folder/words"
    cat "/proc/$child/comm" >"$folder/name"
    kill -s INT $child
    wait $child
    [ $? = 130 ] || fail "$folder: not interrupted in good order"
}
policy_is() { # FOLDER POLICY
    [ "$(cat "$1/policy")" = "$2" ] || fail "$1: $2 expected, the process has: $(tr '\n' ' ' <"$1/policy")"
}
trains default A=b
policy_is default "$(printf 'OMP_WAIT_POLICY=passive\nGOMP_SPINCOUNT=10000')"
[ "$(cat default/name)" = "$(basename "$dawn9")" ] || fail "the process is called $(cat default/name)"
[ "$(cat default/words)" = "$dawn9 train long.yaml --out default --quiet " ] || fail "its words: $(cat default/words)"
for chosen in OMP_WAIT_POLICY=active GOMP_SPINCOUNT=1000 KMP_BLOCKTIME=1; do # by the user
    trains $chosen $chosen
    policy_is $chosen $chosen
done
trains both OMP_WAIT_POLICY=passive GOMP_SPINCOUNT=7
policy_is both "$(printf 'OMP_WAIT_POLICY=passive\nGOMP_SPINCOUNT=7')"

# ---- a run is planned for the threads that OpenMP grants; oneDNN would wait forever for threads that are missing ----
sed 's/^backend: .*/backend: cpu/; /^threads:/d' long.yaml >cpu.yaml
for limit in OMP_THREAD_LIMIT=1 OMP_MAX_ACTIVE_LEVELS=0 OMP_DYNAMIC=true; do
    accepts env $limit timeout -s KILL 100 "$dawn9" train cpu.yaml --epochs 2 --out limited --overwrite --quiet
    [ $limit = OMP_DYNAMIC=true ] || json limited/result.json 'd["threads"] == 1'
done
if [ "$(nproc)" -gt 1 ] || omits processors "only one"; then # a stack of 130 TiB cannot be had: the system rejects the thread, as under ulimit -u
    rejected() { (ulimit -s 140000000000 && exec "$dawn9" train cpu.yaml --out rejected --threads 2); }
    rejects 4 'threads 1 2 ulimit --threads' rejected
fi

# ---- OpenMP may bind threads to processors, the first one before main: a run still uses all that it may use ----
masks() { sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' "$@" | sort -u; }
if [ "$(nproc)" -gt 1 ]; then
    accepts "$dawn9" train cpu.yaml --epochs 1 --out free --quiet
    for chosen in OMP_PROC_BIND=spread 'OMP_PLACES=cores OMP_WAIT_POLICY=passive'; do # started twice, and once
        # shellcheck disable=SC2086 # one word per variable
        accepts env $chosen "$dawn9" train cpu.yaml --epochs 1 --out bound --overwrite --quiet
        json bound/result.json 'd["threads"] == result("free")["threads"]'
    done
fi
if [ "$(nproc)" -gt 1 ] && ldd "$dawn9" | grep -q libgomp; then # clang's OpenMP cannot let go of a first thread
    # workers share the processors: OpenMP would bind the threads of each to the same ones
    (cat cpu.yaml && echo 'threads: 2') >two-threads.yaml
    printf 'title: two\nconfig: two-threads.yaml\nseeds: 2\narms: {one: {}}\n' >two.yaml
    OMP_PROC_BIND=true "$dawn9" experiment two.yaml --out two --workers 2 --quiet >"$out" 2>"$err" &
    child=$!
    for seed in 1 2; do until_written two/runs/one/seed$seed/events.jsonl $child; done
    workers=0
    for worker in $(grep -l "^PPid:[[:space:]]*$child\$" /proc/[0-9]*/status 2>/dev/null | cut -d/ -f3); do
        is "$(masks /proc/"$worker"/task/*/status)" "$(masks /proc/self/status)" "processors of a worker's threads"
        workers=$((workers + 1))
    done
    is $workers 2 "number of workers"
    kill -s INT $child
    wait $child
    is $? 130 "status of the interrupted workers"
fi

# ---- started by the dynamic linker, the program in /proc/self/exe is another ----
loader=$(ldd "$dawn9" | sed -n 's,^[[:space:]]*\(/[^ ]*/ld-[^ ]*\) .*,\1,p')
accepts "$loader" "$dawn9" train long.yaml --epochs 1 --out by-loader --quiet
accepts "$dawn9" --version
cp "$out" version
accepts "$loader" "$dawn9" --version
same "$out" version

# ---- the process clock counts from the first start, not from the second ----
began=$(date +%s%N)
accepts "$dawn9" train long.yaml --set train.epochs=1 --out clock --json
wall=$((($(date +%s%N) - began) / 1000000)) # milliseconds
json "$out" 'd["timeline"][0]["name"] == "process" and 0 < d["timeline"][0]["seconds"]'
json "$out" "d[\"process_seconds\"] < $wall / 1000 + 0.01" # the kernel counts its start in hundredths of a second

# ---- only commands that compute start twice (glibc reports each initialisation) ----
starts() { # COUNT [NAME=VALUE...] COMMAND...
    expected=$1
    shift
    observe env LD_DEBUG=libs "$@"
    [ "$(grep -c 'initialize program:' "$err")" = "$expected" ] ||
        fail "started $(grep -c 'initialize program:' "$err") times, $expected expected: $*"
}
if env LD_DEBUG=libs "$dawn9" --version 2>&1 | grep -q 'initialize program:' || omits linker "it reports nothing"; then
    starts 1 "$dawn9" --help
    grep -Eq 'dnnl|dawn9-onednn' "$err" && fail "--help maps a vendor library"
    starts 1 "$dawn9" train --help
    starts 1 "$dawn9" tricks
    starts 1 "$dawn9" config long.yaml
    starts 1 "$dawn9" train long.yaml --sed 1 # a misspelt option
    starts 2 "$dawn9" train nothing.yaml
    starts 2 "$dawn9" eval nothing.yaml nothing
    starts 2 "$dawn9" verify --cases nothing
    starts 2 "$dawn9" bench step --config nothing.yaml
    starts 1 OMP_WAIT_POLICY=active "$dawn9" train nothing.yaml
fi
verdict
