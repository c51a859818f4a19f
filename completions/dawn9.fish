# fish completion of dawn9. The program prints the matching words (dawn9 help --complete); this adds files.

# For an option written --option=VALUE, completed paths keep the part before VALUE.
function __dawn9_paths --argument-names current pattern
    set -l head (string match --regex -- '^--[^=]*=' $current)
    set -l value (string replace --regex -- '^--[^=]*=' '' $current)
    __fish_complete_path "$value" '' | string match --regex --entire -- $pattern | string replace --regex -- '^' "$head"
end

function __dawn9_complete
    set -l words (commandline --tokenize --cut-at-cursor --current-process)
    set -l current (commandline --cut-at-cursor --current-token)
    set -l program (string replace --regex -- '^~' $HOME $words[1])
    for line in ($program help (string replace --regex -- '^' --complete= $words[2..-1] "$current") 2>/dev/null)
        switch $line
            case :folders
                __dawn9_paths "$current" '/(?:\t|$)'
            case :files
                __dawn9_paths "$current" .
            case ':files *'
                __dawn9_paths "$current" '(?:/|\.'(string replace -- ':files ' '' $line)')(?:\t|$)'
            case '*'
                printf '%s\n' $line
        end
    end
end

complete --command dawn9 --no-files --arguments '(__dawn9_complete)'
