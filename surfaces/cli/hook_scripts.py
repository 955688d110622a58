"""The texts of the git hooks that `understudy hooks install` writes, in POSIX sh.

    line 1   #!/bin/sh
    line 2   the mark: the hook's name, and a digest of all that is below
    line 3   what was said at the installation, as JSON
    ...      the same as variables of the shell, and the hook itself

I1  Only a text whose mark fits it is ours; what a person has edited is the person's.
I2  Every word from outside is quoted for the shell, or stands in a variable.
I3  A worker's fence, or a push to a guarded branch on the server's side, that cannot be asked
    about is refused.
"""

import hashlib
import json
import os
import shlex
from dataclasses import asdict, dataclass
from typing import Final

NAMES: Final = ("pre-commit", "pre-push", "update")
BEFORE: Final = ".before-understudy"  # what a hook is called that was there first
_MARK: Final = b"# understudy hook "
_SHEBANG: Final = b"#!/bin/sh\n"


@dataclass(frozen=True, slots=True)
class HookSettings:
    """What is said when a hook is installed."""

    guard: tuple[str, ...]  # branches, without refs/heads/
    strict: bool  # whether people need a fence too
    state_dir: str | None  # of the authority that is asked; else the one of the worker
    program: str  # `understudy`, by its path


def written(name: str, settings: HookSettings) -> bytes:
    """The text of a hook."""
    said = json.dumps(asdict(settings), sort_keys=True)  # on one line, whatever a path has in it
    names = [shlex.quote(f"refs/heads/{each}") for each in settings.guard]
    text = _BODIES[name].replace("@GUARDED@", " | ".join(names))
    text = text.replace("@STRICT@", "yes" if settings.strict else "")
    text = "".join(
        [
            f"# {said}\n",
            "# Written by `understudy hooks install`; `understudy hooks remove` takes it away.\n",
            f"understudy={shlex.quote(settings.program)}\n",
            f"state_dir={shlex.quote(settings.state_dir or '')}\n",
            text,
        ]
    )
    below = os.fsencode(text)
    return _SHEBANG + _marked(name, below) + below


def settings_of(name: str, text: bytes) -> HookSettings | None:
    """What a hook of ours was installed with; None for a text that is not ours (I1)."""
    shebang, mark, below = (*text.split(b"\n", 2), b"", b"")[:3]
    if shebang + b"\n" != _SHEBANG or mark + b"\n" != _marked(name, below):
        return None
    said = json.loads(below.split(b"\n", 1)[0].removeprefix(b"# "))
    return HookSettings(**said | {"guard": tuple(said["guard"])})


def is_marked(text: bytes) -> bool:
    """Whether it was ours once, though it may have been edited since."""
    return text.startswith(_SHEBANG + _MARK)


def _marked(name: str, below: bytes) -> bytes:
    return _MARK + f"{name} {hashlib.sha256(below).hexdigest()}\n".encode()


def _worker_asked(verb: str) -> str:
    """Lines that let a worker go on while its fence is current, and end the hook otherwise (I3)."""
    return _ASKED.replace("@VERB@", verb)


# --- what the hooks have in common ----------------------------------------------------------------

_BEGIN: Final = """\
[ -x "$understudy" ] || understudy=understudy # it has moved: the one in PATH
before=$0.before-understudy
"""

_FIRST: Final = """\
if [ -x "$before" ]; then "$before" "$@" || exit; fi
"""

_ASKED: Final = """\
    "$understudy" guard ${state_dir:+--state-dir "$state_dir"} > /dev/null
    case $? in
    0) ;;
    3 | 5 | 6) refuse "$work is no longer yours; nothing is @VERB@" \\
        "Leave it to its holder, or claim it again." ;;
    *) refuse "it could not be asked whether $work is still yours; nothing is @VERB@" \\
        "See \\`understudy guard\\` and \\`understudy doctor\\`, and try again." ;;
    esac
"""


def _refuse(name: str) -> str:
    return f"""\
refuse() {{
    printf '{name}: %s\\n' "$@" >&2
    exit 1
}}
"""


# --- in a working repository ----------------------------------------------------------------------

_WORK: Final = """\
fence=${UNDERSTUDY_FENCE:-}
work=${UNDERSTUDY_ISSUE:-${UNDERSTUDY_JOB:-${UNDERSTUDY_GLUE:-}}}
"""

_PRE_COMMIT: Final = "".join((
    "# A worker whose lease is gone commits nothing. People have no fence, and are not asked.\n",
    _refuse("pre-commit"),
    _BEGIN,
    _FIRST,
    _WORK,
    'if [ -n "$fence" ]; then\n',
    _worker_asked("committed"),
    "fi\n",
))  # fmt: skip

_PRE_PUSH: Final = "".join((
    "# A worker whose lease is gone pushes nothing, and no worker what was committed under an\n",
    "# earlier lease on its issue. A guarded branch moves under a fence; people need one only if\n",
    "# the hook is strict.\n",
    _refuse("pre-push"),
    _BEGIN,
    """\
pushed=$(cat) # one line for each ref
if [ -x "$before" ]; then
    printf '%s' "${pushed:+$pushed
}" 2> /dev/null | "$before" "$@" || exit
fi
""",
    _WORK,
    "strict=@STRICT@\n",
    'if [ -n "$fence" ]; then\n',
    _worker_asked("pushed"),
    """\
fi
printf '%s\\n' "$pushed" | while IFS= read -r line; do
    remote_oid=${line##* } # from its end: what is pushed may be named with spaces
    line=${line% *}
    ref=${line##* }
    line=${line% *}
    local_oid=${line##* }
    if [ -z "$fence" ]; then
        [ -n "$strict$work" ] || continue # a person
        case "$ref" in
        @GUARDED@)
            refuse "${ref#refs/heads/} is guarded, and this push has no fence; nothing is pushed" \\
                "Push while you hold a lease: \\`understudy exec ISSUE -- git push ...\\`." ;;
        esac
        continue
    fi
    case "$local_oid" in *[!0]*) ;; *) continue ;; esac # a branch is deleted, or nothing is pushed
    set -- "$local_oid" --not --remotes
    if git cat-file -e "$remote_oid" 2> /dev/null; then set -- "$@" "$remote_oid"; fi
    made=$(git log --grep='^Understudy-Fence:' --format='%h %(trailers:key=Understudy-Fence,\
valueonly,separator=%x2C) %(trailers:key=Understudy-Issue,valueonly,separator=%x2C)' "$@") || exit 1
    printf '%s\\n' "$made" | while read -r commit older issue; do
        case "$older" in '' | *[!0-9]*) continue ;; esac
        if [ "$issue" = "$work" ] && [ "$older" -lt "$fence" ]; then
            refuse "$commit was made under fence $older, the current one is $fence;" \\
                "nothing is pushed. Look at it, and commit it anew under your own fence."
        fi
    done || exit 1
done || exit 1
""",
))  # fmt: skip

# --- in a bare repository, on the server's side ---------------------------------------------------
# Git hands on the environment of a pusher on the same machine, so nothing is taken from it. The
# greatest fence is kept for each branch and resource: fences of two issues say nothing about each
# other. That of the gluer is where the gluer itself keeps it.

_UPDATE: Final = "".join((
    "# A guarded branch moves only to a commit whose trailers name a lease that is current now.\n",
    _refuse("update"),
    _BEGIN,
    _FIRST,
    r"""GIT_NO_REPLACE_OBJECTS=1 LC_ALL=C
export GIT_NO_REPLACE_OBJECTS LC_ALL
ref=$(git symbolic-ref -q "$1") || ref=$1
old=$2 new=$3 branch=${ref#refs/heads/}
case "$ref" in
refs/understudy/fence/* | refs/understudy/fence-of/*)
    refuse "$ref is written in the repository alone, and takes no push" ;;
@GUARDED@) ;;
*) exit 0 ;;
esac
case "$new" in *[!0]*) ;; *)
    refuse "$branch is guarded, and is not deleted by a push" \
        "Whoever may delete it does so in the repository itself." ;;
esac
case "$old" in *[!0]*)
    git merge-base --is-ancestor "$old" "$new" ||
        refuse "$branch is guarded, and only moves on: the push would drop commits" \
            "Fetch, merge or rebase, and push without --force." ;;
esac
trailer() {
    git -c log.showSignature=false log -1 --format="%(trailers:key=$1,valueonly,unfold)" "$new" --
}
newline='
'
glue=$(trailer Understudy-Glue)
if [ -n "$glue" ]; then
    [ "$glue" = "$branch" ] || refuse "the newest commit was glued for $glue, not for $branch"
    name=$glue resource=glue/$glue fence=$(trailer Understudy-Glue-Fence)
    kept=refs/understudy/fence/$branch
else
    name=$(trailer Understudy-Issue) fence=$(trailer Understudy-Fence)
    resource=issue/$name
    kept=refs/understudy/fence-of/$(printf '%s\n' "$branch" "$resource" | git hash-object --stdin)
fi
case "$name" in '' | *"$newline"*) fence= ;; esac
case "$fence" in '' | 0* | *[!0-9]* | ?????????????????*)
    refuse "$branch is guarded: its newest commit must name the one lease it was made under" \
        'Commit under a lease, with --trailer "Understudy-Issue: ID" --trailer' \
        '"Understudy-Fence: N"; `understudy issue claim ID` gives N.' ;;
esac
blob=$(git rev-parse -q --verify "$kept") || blob=
seen=${blob:+$(git cat-file blob "$blob")}
case "$blob:$seen" in ?*: | *:*[!0-9]*)
    refuse "$kept holds no fence, so $branch did not move; repair it in the repository" ;;
esac
[ "$fence" -ge "${seen:-0}" ] ||
    refuse "fence $fence of $resource is older than $seen, which has moved $branch already" \
        "Somebody newer holds it: leave it to them, or claim it again and commit anew."
said=$("$understudy" guard --state-dir "$state_dir" --resource "$resource" --fence "$fence" 2>&1)
code=$?
case $code in
0) ;;
3 | 5 | 6)
    refuse "$said" "$branch did not move. Claim the work again, and commit under the new fence." ;;
*)
    refuse "$said" "the authority could not be asked (exit code $code), so $branch did not move" \
        "Once \`understudy doctor\` finds nothing wrong with $state_dir, push again;" \
        "it has to be asked by the user that receives pushes." ;;
esac
[ "$fence" = "$seen" ] && exit 0
newer=$(printf '%s\n' "$fence" | git hash-object -w --stdin) &&
    git update-ref "$kept" "$newer" "$blob" ||
    refuse "fence $fence could not be remembered in $kept, so $branch did not move; push again"
""",
))  # fmt: skip

_BODIES: Final = dict(zip(NAMES, (_PRE_COMMIT, _PRE_PUSH, _UPDATE), strict=True))
