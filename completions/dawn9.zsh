#compdef dawn9
# zsh completion of dawn9. The program prints the matching words (dawn9 help --complete); this adds files.

_dawn9() {
    local program=${~words[1]} line name
    local -i in_option=0
    local -a typed names texts open_names open_texts
    [[ $PREFIX = --*=* ]] && in_option=1 # a path begins behind it
    typed=("${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}")
    for line in "${(@f)$($program help "${(@)typed/#/--complete=}" 2>/dev/null)}"; do
        name=${line%%$'\t'*}
        case $name in
            '') ;;
            :folders) (( in_option )) && compset -P '*='; _files -/ ;;
            :files) (( in_option )) && compset -P '*='; _files ;;
            ':files '*) (( in_option )) && compset -P '*='; _files -g "*.${name#:files }" ;;
            *[:=,.]) open_names+=("$name"); open_texts+=("${line/$'\t'/  }") ;; # more is to follow
            *) names+=("$name"); texts+=("${line/$'\t'/  }") ;;
        esac
    done
    (( $#names )) && compadd -Q -l -d texts -- "${(@)names}"
    (( $#open_names )) && compadd -Q -l -S '' -d open_texts -- "${(@)open_names}"
    return 0
}

# Autoloaded as _dawn9, this file is the body of the function; sourced, it only registers it.
if [[ ${funcstack[1]-} = _dawn9 ]]; then
    _dawn9 "$@"
else
    compdef _dawn9 dawn9
fi
