# Completion of mcp-reconnect for bash; the one of macOS, 3.2, completes no paths. The
# program itself knows what may stand at the cursor, and quotes it.
_mcp_reconnect() {
    local line kind= n
    COMPREPLY=()
    while IFS= read -r line; do
        if [[ -z $kind ]]; then kind=$line; else COMPREPLY+=("$line"); fi
    done <<< "$(command mcp-reconnect __complete bash "${COMP_LINE:0:COMP_POINT}" "$2" 2>/dev/null)"
    case $kind in
        files) compopt -o default 2>/dev/null ;;
        dirs) compopt -o dirnames 2>/dev/null ;;
        command)
            for ((n = 1; n < COMP_CWORD; n++)); do
                [[ ${COMP_WORDS[n]} != -- ]] || break
            done
            if declare -F _command_offset >/dev/null; then
                _command_offset $((n + 1)) # of the package bash-completion
            elif ((n + 1 == COMP_CWORD)); then
                while IFS= read -r line; do
                    COMPREPLY+=("$line")
                done <<< "$(compgen -c -- "$2")"
            else
                compopt -o default 2>/dev/null
            fi ;;
    esac
}
complete -F _mcp_reconnect mcp-reconnect
