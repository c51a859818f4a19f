#!/bin/sh
# Runs three analysers over the C files of engine, tricks and kernels, except CUDA and stb's code: clang-tidy with
# .clang-tidy, cppcheck with tests/analyze/cppcheck.txt, gcc's -fanalyzer with tests/analyze/gcc.txt. Prints their
# findings; exit status 1 if there are any, or if an analyser overlooks a planted fault; 77: a tool is missing.
#
# usage: tests/analyze.sh [clang-tidy] [cppcheck] [gcc]    none named: all three
#
# About five minutes on two cores. Part of tests/run.sh --long; outside CI. Debian packages: clang, clang-tidy,
# cppcheck, python3. clang-tidy 14, cppcheck 2.10 and gcc 12.2 find nothing; other versions may differ.
#
# Each file is analysed once, on its own, as the build compiles it; the loops of kernels/cpu at level v4bf16, which
# includes every branch of the preprocessor. Exclusions and their reasons are in .clang-tidy, cppcheck.txt and gcc.txt,
# or on the line (NOLINT).
set -eu
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- clang-tidy cppcheck gcc
build=build-analyze jobs=$(nproc) bad=0

for tool in "$@"; do
    case $tool in clang-tidy | cppcheck | gcc) continue ;; esac
    echo "usage: tests/analyze.sh [clang-tidy] [cppcheck] [gcc]" >&2
    exit 2
done
missing=
for tool in "$@" clang python3; do command -v "$tool" >/dev/null || missing="$missing $tool"; done
if [ -n "$missing" ]; then
    echo "skipped: analysers: not installed (Debian package names):$missing"
    exit 77
fi

# Makes the compile commands for clang, and the three headers that a build generates.
mkdir -p $build
cmake -G Ninja -S . -B $build -DCMAKE_C_COMPILER=clang -DCMAKE_BUILD_TYPE=Debug -DDAWN9_CUDA=OFF -DDAWN9_TESTS=OFF >$build/configure.log
cmake -DSOURCE="$PWD" -DOUT="$PWD/$build/commit.h" -P cmake/commit.cmake
cmake -DFOLDER="$PWD/plots" -DOUT="$PWD/$build/templates.h" -DTYPE=d9_template -DNAME=templates -P cmake/embed.cmake
cmake -DFOLDER="$PWD/completions" -DOUT="$PWD/$build/completions.h" -DTYPE=completion -DNAME=completions -P cmake/embed.cmake

# A null dereference that each analyser must find, because an analyser that reads no file also reports nothing.
echo 'int planted(int n); int planted(int n) { int *nowhere = 0; return n > 3 ? *nowhere : n; }' >$build/planted.c

# Keeps one command per file: clang's database in $build/once, the names in once/files, gcc's commands in once/gcc.
python3 - $build "$PWD" <<'PYTHON'
import json, os, shlex, sys
build, root = sys.argv[1:]
once = {}
for entry in json.load(open(f"{build}/compile_commands.json")):
    name = os.path.relpath(entry["file"], root)
    if name == "engine/data/stb.c": # stb's own code
        continue
    if "/cuda/" not in name and (name not in once or "loops_v4bf16" in entry["command"]):
        words = shlex.split(entry["command"])
        defines = {"engine/core/context.c": ["-DD9_MODEL_CONTEXT"], "engine/config/tree.c": ["-DD9_MODEL_TREE"]}
        words[1:1] = ["-D_GNU_SOURCE=", *defines.get(name, []), "-include", f"{root}/tests/analyze/model.h"]
        once[name] = dict(directory=entry["directory"], file=entry["file"], arguments=words)
like = once["engine/core/context.c"]
path = f"{root}/{build}/planted.c"
once[f"{build}/planted.c"] = like | dict(file=path, arguments=[*like["arguments"][:-1], path])
os.makedirs(f"{build}/once", exist_ok=True)
json.dump(list(once.values()), open(f"{build}/once/compile_commands.json", "w"), indent=1)
with open(f"{build}/once/files", "w") as files, open(f"{build}/once/gcc", "w") as gcc:
    for name in sorted(once):
        words = once[name]["arguments"]
        words[words.index("-o") + 1] = "/dev/null"
        words = ["-fopenmp" if w.startswith("-fopenmp=") else w for w in words[1:]]
        print(name, file=files)
        print(shlex.quote(shlex.join(["gcc", *words, "-O1", "-fanalyzer", "-Wno-sign-conversion", "-Wno-unused-result"])), file=gcc)
PYTHON

# analyse NAME COMMAND...: reports the command's lines with a severity as findings of NAME, except gcc's that gcc.txt
# lists. The command's exit status is ignored: a file that does not compile is a finding, and the planted finding must
# be there.
analyse() {
    name=$1
    shift
    began=$(date +%s)
    "$@" >$build/"$name".log 2>&1 || true
    sed "s,$PWD/,,g" $build/"$name".log | grep -E '(warning|error|style|performance|portability): ' | sort -u >$build/"$name".all || true
    known="^$build/planted\.c:"
    [ "$name" != gcc ] || known="$known|$(grep -v '^\(#\|$\)' tests/analyze/gcc.txt | paste -sd '|')"
    grep -Ev "$known" $build/"$name".all >$build/"$name".found || true
    echo "$name: $(wc -l <$build/"$name".found) findings in $(wc -l <$build/once/files) files, $(($(date +%s) - began)) s"
    cat $build/"$name".found
    [ ! -s $build/"$name".found ] || bad=1
    grep -q "^$build/planted\.c:" $build/"$name".all && return
    echo "$name overlooks $build/planted.c:"
    tail -n 20 $build/"$name".log
    bad=1
}

for tool in "$@"; do
    case $tool in
    clang-tidy) # one file per process: with several it falsely reports uninitialised va_lists
        analyse clang-tidy xargs -a $build/once/files -P "$jobs" -n 1 clang-tidy -p $build/once --quiet --warnings-as-errors='*' ;;
    cppcheck)
        analyse cppcheck cppcheck --project=$build/once/compile_commands.json -j "$jobs" --quiet --error-exitcode=1 \
            --enable=warning,performance,portability --inline-suppr --suppressions-list=tests/analyze/cppcheck.txt \
            --include=tests/analyze/model.h -DD9_CPPCHECK --template='{file}:{line}: {severity}: {message} [{id}]' ;;
    gcc) analyse gcc xargs -a $build/once/gcc -P "$jobs" -n 1 sh -c 'eval "cd build-analyze && $0"' ;;
    esac
done
exit $bad
