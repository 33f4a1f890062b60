
# Values that exist now: the program decides which ones belong here.
_sortie_live() {
    _sortie "$@"
    local current=${COMP_WORDS[COMP_CWORD]} values
    values=$("${COMP_WORDS[0]}" completions --values-for "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null) || return 0
    mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -W "$values" -- "$current")
}
complete -F _sortie_live -o bashdefault -o default sortie
