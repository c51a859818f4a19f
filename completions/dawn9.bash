# bash completion of dawn9. The program prints the matching words (dawn9 help --complete); this adds files.

# Readline also breaks words at = and :. This sets the array `words` to the program and the arguments that it will get:
# parts without a blank between them are joined, and text after the cursor is left out.
_dawn9_words() {
    local rest=${COMP_LINE:0:COMP_POINT} part
    words=()
    for part in "${COMP_WORDS[@]:0:COMP_CWORD+1}"; do
        if [[ ${#words[@]} = 0 || $rest == [[:blank:]]* ]]; then
            rest=${rest#"${rest%%[![:blank:]]*}"}
            words+=("")
        fi
        [[ $rest == "$part"* ]] || part=$rest # the cursor is inside of it
        words[${#words[@]}-1]+=$part
        rest=${rest#"$part"}
    done
}

_dawn9() {
    local words candidate current program head=
    _dawn9_words
    program=${words[0]/#\~/$HOME}
    current=${words[${#words[@]}-1]}
    words=("${words[@]:1}")
    # Readline replaces only what follows its last break.
    [[ $current != *[:=]* ]] || head=${current%"${current##*[:=]}"}
    COMPREPLY=()
    while IFS= read -r candidate; do
        candidate=${candidate%%$'\t'*}
        case $candidate in
            :folders) compopt -o filenames; _dawn9_files -d ;;
            :files) compopt -o filenames; _dawn9_files -f ;;
            ":files "*) compopt -o filenames; _dawn9_files -d; _dawn9_files -f -X "!*.${candidate#:files }" ;;
            *) COMPREPLY+=("${candidate#"$head"}") ;;
        esac
    done < <("$program" help "${words[@]/#/--complete=}" 2>/dev/null)
    # A candidate that ends so needs more text, so no blank is added.
    [[ ${#COMPREPLY[@]} = 1 && ${COMPREPLY[0]} == *[:=,.] ]] && compopt -o nospace
    return 0
}

_dawn9_files() { # OPTION...: adds the names that compgen finds for the part of the word that readline replaces
    local file
    while IFS= read -r file; do COMPREPLY+=("$file"); done < <(compgen "$@" -- "${current#"$head"}")
}

complete -F _dawn9 dawn9
