# Completion of mcp-reconnect for Windows PowerShell 5.1 and PowerShell 7. The program
# itself knows what may stand at the cursor, and quotes it.
Register-ArgumentCompleter -Native -CommandName 'mcp-reconnect', 'mcp-reconnect.exe' -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)
    # Words as they are passed on; what PowerShell would have to evaluate stays as it was typed.
    $words = @($commandAst.CommandElements | Select-Object -Skip 1 |
        Where-Object { $_.Extent.StartOffset -lt $cursorPosition } |
        ForEach-Object { if ($_.Value -is [string]) { $_.Value } else { $_.Extent.Text } })
    if ($wordToComplete -eq '') { $words += '' }
    # Before 7.3 arguments lose their quotes, and empty ones are lost: all are passed as 5.1
    # does, in quotes of our own, as the C runtime reads them.
    $PSNativeCommandArgumentPassing = 'Legacy'
    $quoted = @($words | ForEach-Object { '"' + ($_ -replace '(\\*)"', '$1$1\"' -replace '(\\+)$', '$1$1') + '"' })
    $kind, $lines = @(& mcp-reconnect __complete powershell @quoted 2>$null)
    switch ($kind) {
        'files' { return } # with no answer, PowerShell completes paths
        'dirs' { return }
        'command' {
            if ([array]::IndexOf($words, '--') -eq $words.Count - 2) {
                [System.Management.Automation.CompletionCompleters]::CompleteCommand($wordToComplete)
            }
            return
        }
    }
    if (-not $lines) { return '' } # an answer that completes nothing
    foreach ($line in $lines) {
        $text, $description = $line -split "`t", 2
        if (-not $description) { $description = $text }
        [System.Management.Automation.CompletionResult]::new($text, $text, 'ParameterValue', $description)
    }
}
