# SPDX-License-Identifier: Apache-2.0
# Programs that run those of their arguments that the real programs would run. Each argument of
# this script is a line to paste. It prints the number of every line that runs data as code, then "done".
exec 3>&1 4>&2 >/dev/null 2>&1 </dev/null
PATH=/nowhere
EDITOR=vi
ran() { echo "$number" >&3; }
touch() { ran; }

# Programs that run the command after their options.
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

# ssh accepts options everywhere before the command. sshd joins the words of the command.
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
# pdsh passes each host name to ssh as one word, and joins the words of the command as ssh does.
pdsh() {
  local hosts
  while [[ $1 == -* ]]; do
    case $1 in -w) hosts=$2; shift 2;; -[Rxfltu]) shift 2;; *) shift;; esac
  done
  IFS=, read -ra hosts <<<"$hosts"
  for host in "${hosts[@]}"; do [[ $host == *@-* ]] && ssh_option "${host#*@}"; done
  eval "$*"
}
# The shell of the other machine reads the part after the colon, unless -s protects it.
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

# Programs with their own language: data in a script would run.
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
# Only the name of a package is safe for pip: a path or a URL could be anybody's code.
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

# DeepSpeed passes the arguments of the script to a shell on every node, in double quotes if they
# contain a blank (deepspeed/launcher/multinode_runner.py, PDSHRunner.parse_user_args, 0.12.5 to
# 0.19.8), and the master's address without quotes. It does not pass on the options that it reads itself.
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

# DeepSpeed exports the lines of the file without quotes or, depending on the release, in double
# quotes (add_export and get_cmd in the same file).
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
