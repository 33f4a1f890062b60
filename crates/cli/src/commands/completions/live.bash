
# Values that exist now: the program decides which ones belong here.
_sortie_live() {
    _sortie "$@"
    local current=${COMP_WORDS[COMP_CWORD]} value
    # The values come from the store. They are quoted, and the shell never expands them.
    while IFS= read -r value; do
        if [[ $value == "$current"* ]]; then
            COMPREPLY+=("$(printf '%q' "$value")")
        fi
    done < <("${COMP_WORDS[0]}" completions --values-for "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -F _sortie_live -o bashdefault -o default sortie
