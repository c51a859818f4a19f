#!/bin/sh
# Checks in the object files that there are no mutable globals below main: nothing of engine, tricks and kernels is in
# .data, .bss, .tdata, .tbss or a common block, static locals included, except the rows of `allowed`. (Constants with
# addresses are in .data.rel.ro, which is read-only once the program runs.) Prints one line per violation; exit status 1
# if there are any.
#
# usage: tests/globals.sh BUILD    first proves on planted objects that it finds each kind. Needs objdump and cc.
set -eu
build=$1
allowed='
engine/data/stb.c.o   any                tables and settings of stb_image, stb_image_resize and stb_image_write
engine/cli/main.c.o   interrupt_signal   the signal that came, written by the signal handler
engine/cli/main.c.o   interrupt_seconds  the time of the first signal
engine/cli/main.c.o   main_process       the only process that prints about a signal
engine/cli/main.c.o   unsaved_steps      steps since the last checkpoint, which the signal handler reports
.c.o                  .gomp_critical_    the lock that GCC makes for "omp critical"
'

# Prints "FILE SECTION NAME" for each object in a writable section. Symbols of size 0 are the sections themselves.
mutable_of() { # object files
    objdump -t "$@" | awk '
        / file format / { file = $1; sub(/:$/, "", file) }
        { section = ""; for (i = 2; i < NF; i++) if ($i ~ /^(\.(data|bss|tdata|tbss)(\..*)?|\*COM\*)$/) section = $i }
        section != "" && section !~ /^\.data\.rel\.ro/ && $(NF - 1) != "0000000000000000" { print file, section, $NF }'
}

# Prints the objects that are not on the list of exceptions.
complaints() { # object files
    mutable_of "$@" | awk -v allowed="$allowed" '
        BEGIN { rows = split(allowed, row, "\n") }
        {
            fine = 0
            for (i = 1; i <= rows; i++)
                if (split(row[i], word, " ") && substr($1, length($1) - length(word[1]) + 1) == word[1] &&
                    (word[2] == "any" || index($3, word[2]) == 1)) fine = 1
            if (!fine) print $1 ": " $3 " can be written to (" $2 ")"
        }'
}

# ---- the proof ----

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
planted=0
plant() { # COUNT, text, [an option]: expects COUNT complaints about the text
    planted=$((planted + 1))
    printf '%s\n' "$2" >"$scratch/a.c"
    "${CC:-cc}" -O2 -fPIC -fopenmp ${3:-} -c -o "$scratch/a.c.o" "$scratch/a.c"
    [ "$(complaints "$scratch/a.c.o" | wc -l)" = "$1" ] && return
    echo "globals: $1 complaints expected about '$2', these came:"
    complaints "$scratch/a.c.o"
    exit 1
}
plant 1 'int counter = 1; int next(void) { return counter++; }'
plant 1 'static int counter; int next(void) { return counter++; }'
plant 1 'int next(void) { static int counter = 7; return counter++; }'
plant 1 'int counter;' -fcommon
plant 1 'static _Thread_local int counter; int next(void) { return counter++; }'
plant 1 '_Thread_local int counter = 3;'
plant 1 'const char *word = "a pointer that is not const";'
plant 1 'int table[2] __attribute__((section(".data.mine"))) = {1, 2};'
plant 2 'static int gomp_critical_, interrupt_signal; int next(void) { return gomp_critical_++ + interrupt_signal++; }' # near two exceptions: the compiler's name begins with a dot, interrupt_signal is allowed in main.c alone
plant 0 'static const char *const words[] = {"a", "b"}; const char *word(int i) { return words[i]; }'
plant 0 'const int numbers[] = {1, 2, 3}; const struct { int (*call)(void); } row = {0};'
plant 0 'void next(int *x) {
#pragma omp critical
    ++*x;
}'

# ---- this build ----

# Only in CMake's folders: tests make and remove folders of their own in $build meanwhile, on which find fails.
folders=$(ls -d "$build/CMakeFiles" "$build"/tests/*/CMakeFiles 2>/dev/null || true)
# shellcheck disable=SC2086 # no blank in their names
objects=$(find $folders -path '*/CMakeFiles/dawn9*' \( -path '*/engine/*' -o -path '*/tricks/*' -o -path '*/kernels/*' \) -name '*.c.o')
[ -n "$objects" ] || { echo "globals: no object in $build"; exit 1; }
# shellcheck disable=SC2086 # no blank in their names
found=$(complaints $objects)
[ -z "$found" ] || { echo "$found"; exit 1; }
echo "globals: $planted planted objects told apart, $(echo "$objects" | wc -l) objects hold nothing that can be written to, but for the list"
