# SPDX-License-Identifier: Apache-2.0
# Programs that do with their arguments what the real ones do, as far as that runs any. Each
# argument is a line to paste; the numbers of those that run data are printed, then "done".
exec 3>&1 4>&2 >/dev/null 2>&1 </dev/null
PATH=/nowhere
EDITOR=vi
ran() { echo "$number" >&3; }
touch() { ran; }

# Those that run the command behind their options.
sudo() { while [[ $1 == -* ]]; do shift; done; "$@"; }
env() { while [[ $1 == -* || $1 == *=* ]]; do shift; done; "$@"; }
timeout() { shift; "$@"; }
bash() { [[ $1 == -c ]] && eval "$2"; }
sh() { bash "$@"; }
inside() { while (($#)) && [[ $1 != sh && $1 != bash ]]; do shift; done; "$@"; }
docker() { inside "$@"; }
podman() { inside "$@"; }
kubectl() { inside "$@"; }
srun() { while [[ $1 == -* ]]; do shift; done; "$@"; }

# ssh takes an option for one wherever it stands before the command, whose words sshd joins.
ssh_option() { case $1 in *ProxyCommand=*) eval "${1#*=}";; *LocalCommand=*) eval "${1#*=}";; esac; }
ssh() {
  while :; do
    case $1 in
      --) shift; break;;
      -[oip]) ssh_option "$2"; shift 2;;
      -*) ssh_option "$1"; shift;;
      *) break;;
    esac
  done
  [[ $1 == *@-* ]] && ssh_option "${1#*@}"
  shift
  eval "$*"
}
ssh-keyscan() { for word; do ssh_option "$word"; done; }
ssh-copy-id() { ssh "$@"; }
# pdsh hands each name to ssh as a word of its own, what follows is joined as by ssh.
pdsh() {
  local hosts
  while [[ $1 == -* ]]; do
    case $1 in -w) hosts=$2; shift 2;; -[Rxfltu]) shift 2;; *) shift;; esac
  done
  IFS=, read -ra hosts <<<"$hosts"
  for host in "${hosts[@]}"; do [[ $host == *@-* ]] && ssh_option "${host#*@}"; done
  eval "$*"
}
# The other end's shell reads what follows the colon, unless -s keeps it from that.
copied() {
  local guarded=
  for word; do
    case $word in
      --rsh=*) eval "${word#*=}";;
      -*s*) guarded=yes;;
      *:*) [[ $guarded ]] || eval ": ${word#*:}";;
    esac
  done
}
rsync() {
  local words=()
  while (($#)); do case $1 in -e) eval "$2 w1 true"; shift 2;; *) words+=("$1"); shift;; esac; done
  copied "${words[@]}"
}
scp() { copied "$@"; }

# Programs of a language of their own: where data is in it, it runs.
script() { [[ $1 == *pwned* ]] && ran; }
sed() {
  local given=
  while (($#)); do
    case $1 in
      -e) given=yes; script "$2"; shift;;
      -*) ;;
      *) [[ $given ]] || script "$1"; return;;
    esac
    shift
  done
}
awk() { script "$1"; }
perl() { [[ $1 == -* ]] && script "$2"; }
python() {
  case "$1 $2" in
    -c*) script "$2";;
    "-m pip") shift 2; pip "$@";;
  esac
}
python3() { python "$@"; }
/opt/conda/bin/python() { python "$@"; }
/usr/bin/python3() { python "$@"; }
# A package's name is all that pip may be told: a path and an address are whoever's code.
pip() {
  shift
  while (($#)); do
    case $1 in
      --index-url) script "$2"; shift;;
      -*) ;;
      *@*|*/*|*\;*) [[ $1 == *pwned* ]] && ran;;
    esac
    shift
  done
}
vi() { for word; do [[ $word == +* ]] && ran; done; }
sudoedit() { vi "$@"; }
less() { vi "$@"; }

# DeepSpeed hands what is its script's to a shell on every node, in double quotes where there is a
# blank (deepspeed/launcher/multinode_runner.py, PDSHRunner.parse_user_args, 0.12.5 to 0.19.8),
# and the master's address as it is. What it reads itself is no node's.
deepspeed() {
  local remote=()
  while (($#)); do
    case $1 in
      --include|--exclude|--hostfile|--launcher_args|--launcher|-[ieH]) shift;;
      --include=*|--exclude=*|--launcher_args=*) ;;
      *" "*) remote+=("\"${1//\"/\\\"}\"");;
      *) remote+=("$1");;
    esac
    shift
  done
  eval ": ${remote[*]}"
}

# DeepSpeed exports the lines of the file as they are or, by release, in double quotes (add_export
# and get_cmd there).
launched() {
  local line
  [[ -s $HOME/.deepspeed_env ]] || return
  while IFS= read -r line; do (eval "export $line; "; eval "export ${line%%=*}=\"${line#*=}\"; "); done <"$HOME/.deepspeed_env"
  : >"$HOME/.deepspeed_env"
}

number=0
for line; do
  ((number++))
  (eval "$line")
  launched
done
echo done >&3
