#!/bin/sh
# Packs the records of measurements under experiments/results into one archive each, records.tar.gz, and unpacks them.
# Files meant for reading are beside the archive: report/*.tsv, report.html, summary.txt.
#
# usage: experiments/keep.sh pack FOLDER KEPT             packs the files of FOLDER into KEPT, two levels below results/
#        experiments/keep.sh unpack KEPT FOLDER           unpacks them
#        experiments/keep.sh report KEPT FOLDER [DAWN9]   unpacks them and makes page and tables again (build/dawn9)
#        experiments/keep.sh write KEPT [DAWN9]           the same, then copies the tables into KEPT, and the page if it has one
#
# Equal records give equal archives: names in order, no times, no owners, and the format that tar 1.34 and 1.35 both
# write. An archive has no weights and no predictions (*.safetensors), so a page made from it has no confusion matrix
# and no list of mistakes. In a committed page, a link to a run leads to the archive, and a plot has no link to a PNG
# file.
set -eu

usage() { sed -n '5,8s/^# \{0,1\}//p' "$0" >&2; exit 2; }

archive() { # FOLDER: to standard output
    (cd "$1" && find . -type f ! -name '*.safetensors' ! -path './report/*' ! -path ./report.html \
        ! -path ./summary.txt ! -path './records.tar*' -printf '%P\n' | LC_ALL=C sort |
        tar --create --format=gnu --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=u=rw,go=r --files-from=-)
}

pack() { # FOLDER KEPT
    [ -n "$(find "$1" -type f -print -quit)" ] || { echo "keep.sh: $1 has no files" >&2; exit 2; }
    mkdir -p "$2"
    archive "$1" >"$2/records.tar"
    gzip -9nf --suffix .part "$2/records.tar"
    mv "$2/records.tar.part" "$2/records.tar.gz"
    [ ! -f "$1/summary.txt" ] || [ "$1" -ef "$2" ] || cp "$1/summary.txt" "$2"
    (cd "$2/../.." && sha256sum */*/records.tar.gz >archives.sha256)
}

unpack() { # KEPT FOLDER
    mkdir -p "$2"
    tar --extract --gzip --file "$1/records.tar.gz" --directory "$2"
}

report() { # KEPT FOLDER DAWN9
    unpack "$1" "$2"
    "$3" report "$2"
    sed -E -e 's#href="\./runs/[^"]*"#href="records.tar.gz"#g' -e 's# <a href="[^"]*\.png">PNG</a>##g' \
        "$2/report.html" >"$2/report.part"
    mv "$2/report.part" "$2/report.html"
}

write() { # KEPT DAWN9
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    name=$(basename "$1") # the page shows this name
    report "$1" "$work/$name" "$2"
    [ ! -f "$1/report.html" ] || cp "$work/$name/report.html" "$1/"
    mkdir -p "$1/report"
    tables="arms effects frontier trials" # arms, effects: not of a search
    [ ! -f "$1/report.html" ] || tables="$tables machines runs" # a page links them
    for table in $tables; do
        [ ! -f "$work/$name/report/$table.tsv" ] || cp "$work/$name/report/$table.tsv" "$1/report/"
    done
}

dawn9=$(dirname "$0")/../build/dawn9
case $#:${1-} in
3:pack) pack "$2" "$3" ;;
3:unpack) unpack "$2" "$3" ;;
3:report | 4:report) report "$2" "$3" "${4-$dawn9}" ;;
2:write | 3:write) write "$2" "${3-$dawn9}" ;;
*) usage ;;
esac
