
# Values that exist now: the program decides which ones belong here.
function __sortie_values
    set -l words (commandline -opc) (commandline -ct)
    $words[1] completions --values-for $words[2..] 2>/dev/null
end
complete -c sortie -a '(__sortie_values)'
for option in agent model fallback session resume parent task
    complete -c sortie -l $option -x -a '(__sortie_values)'
end
