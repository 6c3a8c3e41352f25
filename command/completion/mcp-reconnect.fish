# Completion of mcp-reconnect for fish. The program itself knows what may stand at the
# cursor; fish matches and quotes it.
function __mcp_reconnect_complete
    set -l words (commandline -opc)
    set -l word (commandline -ct)
    set -l lines (command mcp-reconnect __complete fish $words[2..-1] "$word" 2>/dev/null)
    switch "$lines[1]"
        case words
            printf '%s\n' $lines[2..-1]
        case files
            complete -C "'' $word"
        case dirs
            complete -C "'' $word" | string match -r '.*/(?:\t.*)?$'
        case command
            set -e words[1..(contains -i -- -- $words)]
            complete -C (string join ' ' -- (string escape -- $words) "$word")
    end
end
complete -c mcp-reconnect -e
complete -c mcp-reconnect -f -a '(__mcp_reconnect_complete)'
