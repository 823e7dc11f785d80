#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Asks bash's completion of opreg what may come last: completion.bash SCRIPT WORD... prints the words.
set -euo pipefail
source "$1"
shift
complete -p opreg | grep -q -- '-F _opreg opreg'
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
COMPREPLY=()
_opreg
printf '%s\n' "${COMPREPLY[@]}"
