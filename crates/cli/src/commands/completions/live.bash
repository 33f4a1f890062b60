
# Values that exist now: the words above are those of the program's definition.
_sortie_live() {
    _sortie "$@"
    local current=${COMP_WORDS[COMP_CWORD]} kind=
    case ${COMP_WORDS[COMP_CWORD - 1]} in
        --agent) kind=agents ;;
        --model | --fallback) kind=models ;;
        --session | --resume) kind=sessions ;;
        --parent | --task) kind=tasks ;;
        show | result | transcript | events | diff | apply | discard | cancel | delete | pause | \
            resume | retry | steer | replay | audit | approve | deny | answer)
            case " ${COMP_WORDS[*]} " in
                *" approvals "* | *" approval "*) kind=requests ;;
                *" agents "* | *" agent "*) kind=agents ;;
                *" tasks "* | *" task "* | *" replay "* | *" audit "* | *" resume "*) kind=tasks ;;
            esac
            ;;
    esac
    [[ -n $kind && $current != -* ]] || return 0
    local values
    values=$("${COMP_WORDS[0]}" completions --values "$kind" 2>/dev/null) || return 0
    mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -W "$values" -- "$current")
}
complete -F _sortie_live -o bashdefault -o default sortie
