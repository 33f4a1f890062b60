
# Values that exist now: the program decides which ones belong here.
_sortie_live() {
    local -a values
    values=("${(@f)$($words[1] completions --values-for "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    values=("${(@)values:#}")
    (( $#values )) && compadd -a values
    _sortie "$@"
    (( $#values )) || return
    return 0
}
(( $+functions[compdef] )) && compdef _sortie_live sortie
