#!/bin/sh
# Checks rules that a compiler does not: which folder may include which folders and libraries, without a circle; where
# names of tricks and certain calls and paths may stand; the length of files and lines; the last line of test scripts.
# Also compares the includes with docs/design.md. Prints "FILE:LINE: what" of each violation; exit status 1 if any.
#
# usage: tests/lint.sh [ROOT]      without ROOT: checks first that planted violations are found, then this tree
#        tests/lint.sh --arrows    each room (row of `layers`) and the rooms that it includes, without those that it
#                                  includes through another room as well
set -eu
here=$(cd "$(dirname "$0")" && pwd)

# ---- the rules as data ----

# A row is a room: FOLDER, then the folders and headers that its files may include. A file belongs to the row with the
# longest FOLDER that its path begins with or is. Includes ("arrows") go down only. On purpose,
#   config includes the option tables of models and tricks and the names of data sets;
#   many rooms include kernels/formulas, which includes no other room;
#   the public header, engine/dawn9.h, includes no other file of dawn9.
layers='
engine/core                core
engine/graph               graph core kernels/formulas
engine/step                step graph core kernels/formulas
engine/models              models graph core
tricks                     tricks step graph core
engine/config              config models tricks data/dataset.h step graph core
engine/data                data core kernels/formulas
engine/parallel            parallel core
engine/backends            backends/backend.h parallel/parallel.h step graph core
engine/backends/host       backends/backend.h parallel/parallel.h backends/host step graph core kernels
engine/backends/reference  backends/backend.h parallel/parallel.h backends/host backends/reference step graph core kernels
engine/backends/cpu        backends/backend.h parallel/parallel.h backends/host backends/cpu step graph core kernels
engine/backends/onednn     backends/backend.h parallel/parallel.h backends/host backends/cpu backends/onednn step graph core kernels
engine/backends/cuda       backends/backend.h parallel/parallel.h backends/host backends/cuda step graph core kernels
engine/record              record backends/backend.h config step graph core commit.h kernels/formulas
engine/build               build config tricks models step graph core
engine/train               train build backends/backend.h parallel/parallel.h data record config step graph core kernels/formulas
engine/exchange            exchange train build data record config step graph core
engine/verify              verify exchange train build backends/backend.h data record config step graph core kernels/formulas
engine/experiment          experiment exchange train backends/backend.h data record config step graph core kernels/formulas
engine/report              report templates.h data record config step graph core
engine/api                 api exchange train data record config step graph core
engine/dawn9.h             none
engine/cli                 cli report experiment verify exchange train build tricks models backends/backend.h parallel/parallel.h data record config step graph core completions.h
kernels                    kernels
kernels/formulas           kernels/formulas
kernels/cpu                kernels
kernels/cuda               kernels
'

# Headers of external libraries: PATTERN of the header, then the folders that may include it.
libraries='
^(oneapi/)?dnnl   engine/backends/onednn/
^mpi              engine/parallel/mpi/
^(cuda|cudnn|cublas|curand|nccl|nvrtc|nvml)   engine/backends/cuda/ kernels/cuda/
^stb[/_]          engine/data/
^png              engine/data/
^yaml             engine/config/ engine/record/
^zlib             engine/record/
'

# The names of tricks and networks that identifiers and strings in engine/ and kernels/ may contain: NAME, PATTERN of
# the files, reason. Free are engine/models and, because help shows examples, the strings of engine/cli.
named='
celu         ^(kernels/|engine/graph/ops/act[.]c)       an activation
gelu         ^(kernels/|engine/graph/ops/act[.]c)       an activation
silu         ^(kernels/|engine/graph/ops/act[.]c)       an activation
crop         ^(kernels/|engine/(backends|build|train|verify)/)  a kind of augmentation
crop         ^engine/(config/sections[.]c|data/(image[.]h|stb[.]c))  a value of data.fit
cutout       ^(kernels/|engine/(backends|build|train|verify)/)  a kind of augmentation
flip         ^engine/verify/case_run[.]c                the mirror draws in a case file
ema          ^engine/verify/                            the moving average in a case file
ema          ^engine/(config/reference|experiment/spec)[.]c     an example in a message or a page
celu         ^engine/experiment/spec[.]c                an example in a message
airbench     ^engine/(dawn9[.]h|api/|record/)           airbench_seconds, a clock
airbench     ^engine/config/                            the published recipe, in descriptions of keys
progressive  ^engine/data/jpeg[.]c                      a kind of JPEG file
sentiment    ^engine/data/fetch[.]c                     a folder in the address of the archive of IMDB
language     ^engine/data/fetch[.]c                     a folder in the address of WikiText-2
'

# Largest number of lines of a file, and of columns of a line in C, C++, CUDA and .def files.
longest=700 widest=120

# ---- the linter: awk over each file, comments and strings taken out ----

names() { # LIST, MACRO: the names in a list of tricks or networks, separated by |
    sed -n "s/^$2(\\(.*\\))$/\\1/p" "$here/../$1" | paste -sd '|'
}

scan() { # ROOT, "arrows" or "", then the files on standard input
    tricks=$(names tricks/tricks.def D9_TRICK) networks=$(names engine/models/models.def D9_MODEL)
    [ -n "$tricks" ] && [ -n "$networks" ] || { echo "lint: no names of tricks and networks"; return 1; }
    (cd "$1" && LC_ALL=C xargs awk -v arrows="$2" -v layers="$layers" -v libraries="$libraries" -v named="$named" \
        -v tricks="$tricks" -v networks="$networks" -v longest=$longest -v widest=$widest '
function complain(what) { bad = 1; if (!arrows) print FILENAME ":" FNR ": " what }
function check_verdict() { # called at the end of a file; a script without `verdict` at its end passes, whatever fails
    if (script && last != "verdict") { bad = 1; if (!arrows) print script ":1: does not end with verdict" }
    script = ""
}
function begins(text, start) { return substr(text, 1, length(start)) == start }

BEGIN {
    count = split(layers, line, "\n")
    for (i = 1; i <= count; i++) {
        gsub(/ +/, " ", line[i])
        space = index(line[i], " ")
        if (!space) continue
        room[++room_count] = substr(line[i], 1, space - 1)
        allowed[room[room_count]] = substr(line[i], space + 1)
    }
    library_count = split(libraries, library, "\n")
    named_count = split(named, exempt, "\n")
    a_name = "(^|[^a-z0-9])(" tricks "|" networks ")([^a-z0-9]|$)"
}

FNR == 1 {
    check_verdict()
    in_comment = 0
    code = FILENAME ~ /^(engine|tricks|kernels)\//
    layer = room_of(FILENAME)
    if (code && layer == "") complain("this folder is in no row of the layers in tests/lint.sh")
}
FNR == longest + 1 { complain("longer than " longest " lines") }
FILENAME ~ /\.(c|h|cu|cpp|def)$/ && length($0) > widest { complain("wider than " widest " columns") }
# Paths start from the folder of the project, so that add_subdirectory(dawn9) works.
FILENAME ~ /(CMakeLists\.txt|\.cmake)$/ && /CMAKE_(SOURCE|BINARY)_DIR/ { complain("use PROJECT_SOURCE_DIR or PROJECT_BINARY_DIR") }

# FOLDER of the row of `layers` that a file belongs to; "": none.
function room_of(path,    k, found) {
    for (k = 1; k <= room_count; k++)
        if ((begins(path, room[k] "/") || path == room[k]) && length(room[k]) > length(found)) found = room[k]
    return found
}

# Returns the line without comments and without the contents of strings and characters; sets `spoken` to the line
# without comments but with strings.
function bare(text,    out, at) {
    out = spoken = ""
    while (text != "") {
        if (in_comment) {
            at = index(text, "*/")
            if (!at) return out
            in_comment = 0
            text = substr(text, at + 2)
        } else if (match(text, /\/\*|\/\/|"|\047/)) {
            out = out substr(text, 1, RSTART - 1)
            spoken = spoken substr(text, 1, RSTART - 1)
            at = substr(text, RSTART, RLENGTH)
            text = substr(text, RSTART)
            if (at == "//") return out
            if (at == "/*") { in_comment = 1; text = substr(text, 3) }
            else if (at == "\"" && match(text, /^"([^"\\]|\\.)*"/)) {
                out = out "\"\""
                spoken = spoken substr(text, 1, RLENGTH)
                text = substr(text, RLENGTH + 1)
            }
            else if (at == "\047" && match(text, /^\047([^\047\\]|\\.)*\047/)) { out = out "0"; text = substr(text, RLENGTH + 1) }
            else { out = out " "; text = substr(text, 2) }
        } else {
            spoken = spoken text
            return out text
        }
    }
    return out
}

# Complains about the name (lower case) of a trick or a network, unless `named` allows it in this file.
function check_name(name,    i, part) {
    for (i = 1; i <= named_count; i++) {
        split(exempt[i], part, " ")
        if (part[1] == name && FILENAME ~ part[2]) return
    }
    complain("the trick or network " name " is named outside its folder")
}

function calls(text, names) { return match(" " text, "[^A-Za-z0-9_>.](" names ")[ ]*[(]") }

# note_arrow records which folder and room include which, to find circles whatever `layers` allows.
function folder_of(path) { sub(/\/[^\/]*$/, "", path); return path }
function note_arrow(name,    from, to) {
    from = folder_of(FILENAME)
    to = folder_of(name ~ /^(tricks|kernels)\// ? name : "engine/" name)
    if (from == to || from == "engine") return
    folders[from]; folders[to]
    if (!((from, to) in arrow)) arrow[from, to] = FILENAME
    if (layer != room_of(to "/")) reaches[layer, room_of(to "/")]
}
# Prints the arrows between rooms, without the `far` ones, which follow from two others.
function print_arrows(    a, b, c, list) {
    for (b = 1; b <= room_count; b++) for (a = 1; a <= room_count; a++) for (c = 1; c <= room_count; c++)
        if ((room[a], room[b]) in reaches && (room[b], room[c]) in reaches) { reaches[room[a], room[c]]; far[a, c] }
    for (a = 1; a <= room_count; a++) {
        list = ""
        for (c = room_count; c > 0; c--)
            if ((room[a], room[c]) in reaches && !((a, c) in far)) list = list (list ? ", " : "") room[c]
        gsub(/engine\//, "", list)
        print room[a] ": " (list ? list : "nothing of ours")
    }
}
# Complains of includes on circles of folders. First removes folders that include no remaining folder or are included by
# none, as long as there are any: the folders that remain are on a circle, or between two circles.
function complain_of_circles(    changed, f, g, ends, starts) {
    for (changed = 1; changed;) {
        changed = 0
        for (f in folders) {
            ends = starts = 1
            for (g in folders) { if ((f, g) in arrow) ends = 0; if ((g, f) in arrow) starts = 0 }
            if (ends || starts) { delete folders[f]; changed = 1 }
        }
    }
    for (f in folders) for (g in folders)
        if ((f, g) in arrow) { print arrow[f, g] ":1: " f " includes " g " on a circle of folders"; bad = 1 }
}

function check_own_include(name,    may, n, k) {
    while (begins(name, "../")) name = substr(name, 4)
    sub(/^engine\//, "", name)
    if (name !~ /\// && name != "commit.h") return # beside the file
    n = split(allowed[layer], may, " ")
    note_arrow(name)
    for (k = 1; k <= n; k++)
        if (name == may[k] || begins(name, may[k] "/")) return
    complain(layer " includes " name ": arrows go down only (tests/lint.sh)")
}

function check_library(name,    i, part, n, k, fine) {
    for (i = 1; i <= library_count; i++) {
        n = split(library[i], part, " ")
        if (n < 2 || name !~ part[1]) continue
        fine = 0
        for (k = 2; k <= n; k++) if (begins(FILENAME, part[k])) fine = 1
        if (!fine) complain(name " outside " part[2])
    }
}

{ line_bare = bare($0) }

code && /^[ \t]*#[ \t]*include/ && match($0, /[<"][^>"]*[>"]/) {
    name = substr($0, RSTART + 1, RLENGTH - 2)
    check_library(name)
    if (substr($0, RSTART, 1) == "\"" && name !~ /^stb[\/_]/) check_own_include(name)
}

code && FILENAME !~ /^(tricks|engine\/models)\// {
    for (rest = tolower(FILENAME ~ /^engine\/cli\// ? line_bare : spoken); match(rest, a_name); rest = substr(rest, start + length(name))) {
        start = RSTART
        name = substr(rest, RSTART, RLENGTH)
        if (name ~ /^[^a-z0-9]/) { name = substr(name, 2); start++ }
        sub(/[^a-z0-9]$/, "", name)
        check_name(name)
    }
}

code && FILENAME !~ /^engine\/cli\// && calls(line_bare, "v?f?printf|puts|fputs|putchar|fputc|perror|exit|_Exit|quick_exit|abort|assert") {
    complain("prints or ends the process below engine/cli")
}
# process.c ends its forked children.
code && FILENAME !~ /^engine\/cli\// && FILENAME != "engine/core/process.c" && calls(line_bare, "_exit") {
    complain("prints or ends the process below engine/cli")
}
code && FILENAME != "engine/core/system.c" && calls(line_bare, "malloc|calloc|realloc|strdup|strndup|fopen|freopen|fdopen|tmpfile") {
    complain("file and memory calls go through core/system.h")
}
code && calls(line_bare, "strcpy|strcat|v?sprintf|gets|ato[ifl]|atoll|strtok|rand|srand") {
    complain("an unsafe call")
}

# Strings count here: a path of one machine is wrong wherever it stands. tests/ make and match paths on purpose.
FILENAME !~ /^tests\// && /(^|[^A-Za-z0-9_.$}~\/-])\/(home|root|work|tmp|Users|mnt|media)\/[A-Za-z0-9_]/ {
    complain("a path of one machine")
}

FILENAME ~ /^tests\/cli\// && /^\. .*\/lib[.]sh"$/ { script = FILENAME }
{ last = $0 }

END { check_verdict(); if (arrows) print_arrows(); else { complain_of_circles(); exit bad } }
')
}

# sources ROOT: files of these kinds that a person writes, neither built nor measured.
sources() {
    (cd "$1" && find . \( -path './build*' -o -name runs -o -name .git -o -path ./experiments/results -o -path ./tests/golden \) -prune -o \
        -type f \( -name '*.[ch]' -o -name '*.def' -o -name '*.sh' -o -name '*.yaml' -o -name '*.cmake' -o -name '*.md' \
        -o -name '*.cu' -o -name '*.cpp' -o -name CMakeLists.txt \) -print | sed 's,^\./,,' | LC_ALL=C sort)
}

arrows() { sources "$1" | scan "$1" arrows; } # ROOT

# Prints the table of rooms in docs/design.md in the form of --arrows.
shown_arrows() { sed -n 's/^| `\([a-z_./0-9]*\)` |.*| \([^|]*\) |$/\1: \2/p' "$1" | tr -d '`'; }

lint() {
    list=$(sources "$1")
    [ -n "$list" ] || { echo "lint: $1 holds no file to read"; return 1; }
    printf '%s\n' "$list" | scan "$1" "" || return 1 # xargs has statuses of its own
    [ ! -f "$1/docs/design.md" ] || [ "$(arrows "$1" | sort)" = "$(shown_arrows "$1/docs/design.md" | sort)" ] || {
        echo "docs/design.md:1: its table of rooms has other arrows than tests/lint.sh --arrows prints"
        return 1
    }
}

# ---- the check that violations of each rule are found ----

planted=0
write_file() { # FILE TEXT: writes a file of the tree
    mkdir -p "$(dirname "$tree/$1")"
    printf '%s\n' "$2" >"$tree/$1"
}
plant() { # FILE PATTERN TEXT: adds a file that must get one complaint, with this pattern; if PATTERN is empty, none
    planted=$((planted + 1))
    case $1 in */a.*) name=${1%.*}$planted.${1##*.} ;; *) name=$1 ;; esac
    write_file "$name" "$3"
    printf '%s\t%s\n' "$name" "$2" >>"$scratch/planted"
}
plant_legal() { plant "$1" '' "$2"; }
plant_tree() { # COUNT PATTERN FILE TEXT [FILE TEXT]: a tree of these files alone must get COUNT complaints with PATTERN
    tree=$scratch/tree$planted count=$1 pattern=$2
    planted=$((planted + 1))
    shift 2
    while [ $# -gt 0 ]; do write_file "$1" "$2" && shift 2; done
    ! lint "$tree" >"$scratch/said" && [ "$(grep -c "$pattern" "$scratch/said")" = "$count" ] && return
    echo "lint: $count complaints like '$pattern' expected; these came:"
    cat "$scratch/said"
    return 1
}

prove() {
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT
    tree=$scratch/tree
    plant engine/train/a.c ':1: dnnl.h outside' '#include <dnnl.h>'
    plant engine/backends/host/a.c 'dnnl_types.h outside' '#include "dnnl_types.h"'
    plant engine/cli/a.c 'cuda_runtime.h outside' '#include <cuda_runtime.h>'
    plant kernels/cpu/a.c 'stb_image.h outside' '#include <stb/stb_image.h>'
    plant engine/core/a.c 'engine/core includes graph/graph.h' '#include "graph/graph.h"'
    plant engine/graph/a.c 'engine/graph includes step/program.h' '#include "step/program.h"'
    plant engine/step/a.c 'engine/step includes tricks/trick.h' '#include "tricks/trick.h"'
    plant tricks/a.c 'tricks includes backends/backend.h' '#include "backends/backend.h"'
    plant engine/train/a.c 'includes backends/onednn/onednn.h' '#include "backends/onednn/onednn.h"'
    plant engine/backends/onednn/a.c 'includes backends/reference/reference.h' '#include "backends/reference/reference.h"'
    plant kernels/formulas/a.h 'includes core/context.h' '#include "core/context.h"'
    plant kernels/cpu/a.c 'includes graph/graph.h' '#include "../../engine/graph/graph.h"'
    plant engine/novel/a.c 'in no row' 'int a;'
    plant engine/step/a.c 'ema is named outside' 'extern const d9_trick d9_trick_ema;'
    plant engine/step/a.c 'ema is named outside' 'int i = D9_TRICK_ema;'
    plant engine/step/a.c 'hard_examples is named outside' 'say("tricks.hard_examples: too few"); /* progressive */'
    plant engine/build/a.c 'airbench is named outside' 'model = d9_model_find("airbench");'
    plant engine/cli/a.c 'densenet is named outside' 'int densenet;'
    plant kernels/cuda/a.cu 'mixup is named outside' 'int crop_y, MIXUP;'
    plant engine/step/a.c 'prints or ends' '    printf("%d", 1);'
    plant engine/step/a.c 'prints or ends' 'if (x) exit(1);'
    plant engine/step/a.c 'prints or ends' 'if (x) _exit(1);'
    plant engine/dawn9.h 'includes core/context.h' '#include "core/context.h"'
    plant engine/api/a.c 'includes cli/cli.h' '#include "cli/cli.h"'
    plant kernels/cpu/a.c 'prints or ends' '/* fine */ abort();'
    plant tricks/a.c 'prints or ends' '    vfprintf (stderr, format, list);'
    plant engine/data/a.c 'through core/system.h' 'p = malloc(1);'
    plant engine/cli/a.c 'unsafe' 'n = atoi(word);'
    plant engine/data/a.c 'unsafe' 'strcpy(a, b);'
    plant engine/data/a.c 'unsafe' 'sprintf(a, "b");'
    plant engine/data/a.c 'a path of one machine' 'const char *p = "/home/someone/data";'
    plant configs/a.yaml 'a path of one machine' 'data: {path: /mnt/disk/images}'
    plant engine/step/a.c "longer than $longest lines" "$(awk -v n=$((longest + 1)) 'BEGIN { for (i = 0; i < n; i++) print "int a;" }')"
    for file in unit/a.c cuda_model/a.cpp; do plant tests/$file 'wider than' "/* $(printf '%0120d' 0) */"; done
    plant cmake/a.cmake 'use PROJECT_' 'include(${CMAKE_SOURCE_DIR}/b.cmake)'
    plant_legal engine/backends/onednn/a.c '#include <dnnl.h>'
    plant tests/cli/a.sh 'does not end with verdict' '. "$(dirname "$0")/lib.sh"
accepts true'
    plant_legal tests/cli/a.sh '. "$(dirname "$0")/lib.sh"
verdict'
    plant_legal engine/cli/a.c 'exit(1);'
    plant_legal engine/train/a.c '/* printf("x"); exit(1); d9_trick_ema' # a comment that goes on
    plant_legal engine/step/a.c 'int schema, mixups, resnet9s;'
    plant_legal engine/models/a.c 'say("resnet9");'
    plant_legal engine/cli/a.c 'say("dawn9 train --with ema");'
    plant_legal engine/train/a.c 'say("call printf(x) and exit(1)"); // abort()'
    plant_legal engine/train/a.c 'status = backend->exit(x); d9_exit(x); snprintf(a, sizeof a, "b"); d9_trick_at(1); i < D9_TRICK_COUNT;'
    plant_legal engine/train/a.c "$(printf '%s\n%s' "char quote = '\"';" 'say("/* no comment");')"
    plant_legal setup.sh 'cache=${XDG_CACHE_HOME:-$HOME/.cache}/tmp/x'
    lint "$tree" >"$scratch/said" && { echo "lint: no planted file is found"; return 1; }
    # Each planted violation gets one complaint, and no other file gets any.
    awk -F '\t' 'NR == FNR { pattern[$1] = $2; next }
        { file = $0; sub(/:.*/, "", file); said[file]++; if (pattern[file] == "" || $0 !~ pattern[file]) { print "not expected: " $0; wrong = 1 } }
        END {
            for (file in pattern)
                if (said[file] + 0 != (pattern[file] != "")) { print file ": " said[file] + 0 " complaints, expected like: " pattern[file]; wrong = 1 }
            exit wrong
        }' "$scratch/planted" "$scratch/said"
    plant_tree 2 'on a circle of folders' engine/step/a.c '#include "graph/b.h"' engine/graph/b.h '#include "step/c.h"'
    plant_tree 1 'other arrows' docs/design.md '| `engine/core` | what everything stands on | graph |'
}

if [ "${1-}" = --arrows ]; then
    arrows "$here/.."
    exit
elif [ $# -gt 0 ]; then
    lint "$1"
    exit
fi
prove
lint "$here/.."
echo "lint: $planted planted files told apart, $(sources "$here/.." | wc -l) files of the tree keep the rules"
