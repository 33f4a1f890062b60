### Messages of the command line.

## Progress lines

# Contract: `[explore] find auth files ... 5 tools, 3.2s`. The indentation is put before it.
progress-started = [{ $agent }] { $label } ...
progress-running = [{ $agent }] { $label } ... { $work }
progress-done = [{ $agent }] { $label } - done ({ $work })
progress-failed = [{ $agent }] { $label } - failed: { $why } ({ $work })
progress-timeout = [{ $agent }] { $label } - timeout ({ $work })
progress-cancelled = [{ $agent }] { $label } - cancelled ({ $work })
# $seconds comes written out.
progress-held =
    { $seconds ->
        [0] waits for the provider's rate limit, position { $position }
       *[other] waits for the provider's rate limit, position { $position }, about { $seconds } s
    }
progress-place = rate limit, position { $position }
progress-retrying = retrying with { $model } after: { $error }
progress-compacted = history shortened from { $before } to { $after } characters
progress-work =
    { $tools ->
        [one] { $tools } tool, { $seconds }s
       *[other] { $tools } tools, { $seconds }s
    }
progress-waiting =
    { $count ->
        [one] [{ $agent }] waiting for { $count } subagent: { $list }
       *[other] [{ $agent }] waiting for { $count } subagents: { $list }
    }

## How a command continues and ends

offline-model = The built-in offline model is in use: it follows fixed rules and understands no language. Choose another with --model or SORTIE_MODEL.
leftovers =
    { $count ->
        [one] { $count } unfinished task of an earlier process continues as well; `sortie resume` waits for it.
       *[other] { $count } unfinished tasks of an earlier process continue as well; `sortie resume` waits for them.
    }
stopping = Cancelling; waiting until everything has stopped. Press Ctrl-C again to exit at once.
cancel-reason-interrupt = stopped with Ctrl-C
cancel-reason-command = stopped with `sortie tasks cancel`
terminated = Stopped by a signal. Running tasks are back in the queue; continue them with `sortie resume`.
abandoned = Exited at once. Running tasks are kept; continue them with `sortie resume`.
kept-text = Text so far:
kept-child = Kept: the result of [{ $agent }] { $label } (sortie tasks result { $id })
kept-look = For everything that was kept: sortie tasks show { $id }
delivery-blocked = The result could not be delivered: { $error }
demo-intro = Three subagents look through { $path }. No network and no key are used.
demo-label = survey this folder
demo-prompt = Survey this project: send out three explorers for its layout, its documentation and its hot spots, and combine their reports into one overview.
spawn-queued = Subagent [{ $label }] is queued (ID: { $id }). `sortie resume` runs it.
resume-nothing = There is nothing to resume.
resume-found = Continuing: { $parts }.
resume-ended = Task { $id } has already ended: { $status }.

## Asking the person at the terminal

approval-asks = { $agent } [{ $label }] asks to run { $tool }:
approval-question = Allow { $agent } [{ $label }] to run { $tool }? [y/N/a1…]
approval-question-once = Allow { $agent } [{ $label }] to run { $tool }? [y/N]
approval-question-danger = Type yes to allow { $agent } [{ $label }] to run { $tool }; anything else denies it:
approval-danger = DANGER: { $why } ({ $command }); instead: { $instead }
withdrawn = Withdrawn: { $reason }
withdrawn-replied = answered elsewhere by { $by } at { $at }: { $words }
withdrawn-expired = expired at { $at } without an answer
withdrawn-ended = the task no longer waits for an answer
replied-approved = approved
replied-approved-always = approved, always: { $rule }
replied-denied = denied
replied-denied-because = denied: { $words }
replied-by-parent = the parent agent
replied-by-person = a person
answer-late = Too late, your answer changed nothing: { $reason }
line-begun-before = You began that line before the question was shown, so it does not count. Type your answer again.
approval-reason = because of { $reason }
approval-reason-mode = { $mode } mode asks before a call that changes something
approval-lasting = a{ $number } = always in this session: { $rule }
question-prompt = { $agent } [{ $label }] asks; your answer:
question-prompt-default = { $agent } [{ $label }] asks; your answer (Enter for { $default }):
approval-size =
    { $lines ->
        [one] { $lines } line, { $bytes } bytes
       *[other] { $lines } lines, { $bytes } bytes
    }
approval-more =
    { $count ->
        [one] … { $count } more line
       *[other] … { $count } more lines
    }
approval-hidden =
    { $count ->
        [one] { $count } character is not shown, at […]; `sortie approvals show { $id }` has it
       *[other] { $count } characters are not shown, at […]; `sortie approvals show { $id }` has them
    }

## Tasks

column-id = ID
column-status = Status
column-agent = Agent
column-label = Label
column-tools = Tools
column-elapsed = Elapsed
column-note = Note
column-age = Age
column-folder = Folder
column-model = Model
column-access = Access
column-when = When to use
waiting-queue = slot { $position }
waiting-blocked = delivery blocked
status-needs-person = needs you
status-paused = paused
status-pending = pending
status-of-running = running
status-completed = completed
status-failed = failed
status-timeout = timeout
status-cancelled = cancelled
waiting-model = model
waiting-tool = tool
waiting-approval = approval
waiting-question = answer
waiting-children = subagents
waiting-children-count = { $ended } of { $all } done
waiting-slot = slot
waiting-rate-limit = rate limit
count-tools =
    { $count ->
        [one] { $count } tool
       *[other] { $count } tools
    }
list-folded =
    { $count ->
        [one] … one more task: sortie tasks list --parent { $id }
       *[other] … { $count } more tasks: sortie tasks list --parent { $id }
    }
list-left-alone =
    { $count ->
        [one] One task has not ended, and no process runs it; continue with `sortie resume`.
       *[other] { $count } tasks have not ended, and no process runs them; continue with `sortie resume`.
    }
no-tasks = There are no tasks.
no-transcript = The transcript has been removed; `sortie tasks show` has what is kept.
stats-total = total
result-not-yet = Task { $id } has no result yet: it is { $status }.
watch-nothing = Nothing is running.
watch-left-alone = No process runs the remaining tasks; continue them with `sortie resume`.
cancel-done =
    { $count ->
        [one] Task { $id } is cancelled.
       *[other] Task { $id } is cancelled, and so is what it started: { $count } tasks in all.
    }
cancel-already-ended = Task { $id } had already ended: { $status }. Nothing was changed.
delete-done =
    { $count ->
        [one] Task { $id } is deleted.
       *[other] Task { $id } is deleted with everything it started: { $count } tasks in all.
    }
clean-done =
    { $count ->
        [0] No task is old enough to be deleted.
        [one] 1 task is deleted. Its usage and audit entries stay.
       *[other] { $count } tasks are deleted. Their usage and audit entries stay.
    }
clean-would-delete =
    { $count ->
        [0] No task is old enough to be deleted.
        [one] 1 task would be deleted.
       *[other] { $count } tasks would be deleted.
    }
field-verdict = Verdict
field-check = Check
field-id = ID
field-handle = Handle
field-label = Label
field-status = Status
field-reason = Reason
field-waiting = Waiting on
field-position = Queue position
field-progress = Progress
field-agent = Agent
field-model = Model
field-session = Session
field-parent = Parent
field-created = Created
field-started = Started
field-ended = Ended
field-elapsed = Elapsed
field-tools = Tools
field-tokens = Tokens
field-delivery = Delivery
field-delivery-error = Delivery error
field-task = Task:
field-children = Children:
field-error = Error:
field-result = Result:
field-name = Name
field-when = When to use
field-access = Access
field-source = Source
field-max-iterations = Iterations

## Agents

model-inherit = its parent's
model-small = small
model-plan = plan
access-read-only = read-only
access-full = full
tools-all = all
tools-except = { $allowed }; never { $denied }
source-built-in = built in
source-embedder = the embedding program

## Errors

error-line = error: { $message }
error-cause = {"  "}because: { $cause }
error-hint = {"  "}hint: { $hint }
error-model = The model cannot be used: { $message }
hint-model = `sortie models list` shows what can be used; `sortie demo` needs no model.
error-no-agent = There is no agent '{ $name }'.
hint-no-agent = Known agents: { $known }.
error-short-id = '{ $id }' is neither a handle nor an id; a handle has 4 to 6 characters, and of an id at least { $min } are needed.
error-not-found = There is no task { $id }.
error-ambiguous = { $prefix } matches { $count } ids; give more characters.
hint-id = `sortie tasks list --all` shows the handles.
error-no-home = This system has no data folder for Sortie.
hint-no-home = Name one with --home or SORTIE_HOME.
error-home = The folder { $path } cannot hold the store of Sortie.
hint-home = Choose a folder that you can write with --home or SORTIE_HOME.
error-file = { $path } could not be written.
error-no-agent-near = There is no agent '{ $name }'; did you mean '{ $near }'?
spawn-waits = Task { $id } [{ $label }] has started; waiting for its result. Ctrl-C cancels it.
resume-resumed =
    { $count ->
        [one] one interrupted task
       *[other] { $count } interrupted tasks
    }
resume-queued =
    { $count ->
        [one] one queued task
       *[other] { $count } queued tasks
    }
resume-undelivered =
    { $count ->
        [one] one result to deliver
       *[other] { $count } results to deliver
    }
resume-given-up =
    { $count ->
        [one] one task given up because its process died too often
       *[other] { $count } tasks given up because their process died too often
    }
resume-waiting = Continuing tasks that wait for their subagents.
doctor-config = configuration
doctor-all-ok = Everything is in order.
doctor-warned =
    { $count ->
        [one] One warning; nothing stops you.
       *[other] { $count } warnings; nothing stops you.
    }
doctor-failed = { $failed } failed, { $warned } with a warning.
error-workspace = The folder { $path } cannot be used as the workspace.
hint-workspace = Name an existing folder with --workspace.
error-input = The instruction could not be read from stdin.
error-empty-input = The instruction is empty.
hint-empty-input = Give an instruction: sortie run "Explain this project".
error-long-input = The instruction is longer than { $max } characters.
hint-long-input = Put the material into a file and name the file in the instruction.
error-sink = '{ $address }' is not a valid delivery address.
hint-sink = Write it as file:PATH.
error-output = The output could not be written.
error-process = The operating system refused a resource that the process needs.
error-locked = The store is in use by { $owner }.
hint-locked = Wait until it has ended, or stop it with Ctrl-C in its terminal. `sortie top` and `sortie tasks list`, `show`, `watch`, `cancel`, `steer`, `pause` and `resume` work meanwhile; another --home has its own store. With `sortie serve`, several commands can work at once.
error-damaged = The journal of task { $id } is damaged at entry { $seq }: { $what }
hint-damaged = `sortie doctor` checks the whole store. Keep a copy of it before you change anything.
error-wrong-state = Task { $id } is { $status }: { $what }
error-store = The store could not { $doing }.
hint-store = `sortie doctor` shows the problem.
error-fenced = The claim on task { $id } is no longer valid.

## sortie doctor

doctor-ok = ok
doctor-warn = warn
doctor-fail = fail
doctor-todo = → { $todo }
doctor-unknown = unknown
doctor-not-found = not found
doctor-home = home
doctor-home-new = { $path } (will be created)
doctor-home-read-only = { $path } cannot be written
doctor-home-todo = Give your user write permission, or choose another folder with --home.
doctor-disk = disk
doctor-disk-free = { $gigabytes } GB free
doctor-disk-todo = Free some space; the store accepts no writes when the disk is full.
doctor-store = store
doctor-store-ok = can be read
doctor-store-todo = Back up the folder; then try a newer version of sortie.
doctor-journal = journals
doctor-journal-ok = { $runs } checked, { $entries } entries, none damaged
doctor-journal-damaged = { $count } damaged: { $first }
doctor-journal-todo = The database was modified outside of Sortie. Restore it from a backup, or delete the tasks named here.
doctor-tasks = tasks
doctor-tasks-found = { $active } active, { $blocked } with a blocked delivery
doctor-tasks-todo = No process runs them; continue them with `sortie resume`.
doctor-lock = lock
doctor-lock-free = free
doctor-lock-held = held by { $owner }
doctor-bwrap = bubblewrap
doctor-bwrap-todo = Install bubblewrap 0.7 or later: it confines commands best.
doctor-landlock = Landlock
doctor-landlock-on = version { $version }
doctor-landlock-off = off
doctor-landlock-todo = Only a second line of defence; a kernel with `landlock` in its list of security modules has it.
doctor-namespaces = user namespaces
doctor-namespaces-on = work
doctor-namespaces-off = do not work
doctor-namespaces-todo = Sandboxes need them; see user.max_user_namespaces and kernel.unprivileged_userns_clone in sysctl.
doctor-keys = keys
doctor-keys-none = none set; the offline model needs none
doctor-keys-set = set: { $names }
doctor-model = model
doctor-model-ok = { $name } is ready
doctor-git = git
doctor-git-todo = Install git, so that agents can read the history of a project and work in worktrees.
doctor-language = language

# Models and configuration.
model-found = Using { $model } ({ $origin }); choose another with --model or `sortie config set model`.
models-server = A model server responds at { $address }: { $models }
model-answered = { $model } answered "{ $words }" in { $ms } ms ({ $tokens } tokens)
key-set = set
key-not-needed = not needed
key-missing = missing: { $variable }
column-key = Key
column-value = Value
column-origin = Set by
column-vendor = Vendor
column-wire = Wire
column-key-state = API key
column-default-model = Default model
column-address = Address
column-session = Session
column-lanes = Lanes
column-labels = Labels
column-command = Command
column-tasks = Tasks
column-input = Input
column-cached = From cache
column-output = Output
column-cost = Cost (estimated)
usage-total = all
config-unknown-tool = { $key }: the rule "{ $rule }" matches no tool and has no effect
config-unknown-tool-near = { $key }: the rule "{ $rule }" matches no tool and has no effect; did you mean "{ $nearest }"?
config-warning = Configuration: { $warning }
config-no-key = No key that begins with { $key } is set; `sortie config schema` has all of them.
config-set = { $key } is set in { $path }.
config-unset = { $key } was removed from { $path }.
config-not-set = { $key } was not set in { $path }.
config-user-file = user file
config-project-file = project file
config-trust-file = trusted folders
config-none = none
trust-yes = trusted
trust-no = not trusted: it can only restrict settings; `sortie trust` changes that
trust-given = { $path } is trusted: its sortie.toml may set everything. Revoke with `sortie trust --revoke`.
trust-revoked = { $path } is no longer trusted.
trust-not-there = { $path } was not trusted.
trust-empty = No folder is trusted.
replay-identical =
    { $runs ->
        [one] Replayed { $runs } task, { $events } events: the same journal to the byte (sha256 { $digest }).
       *[other] Replayed { $runs } tasks, { $events } events: the same journals to the byte (sha256 { $digest }).
    }
replay-forked = Task { $id } continues from event { $at } of { $from }.
error-config = The configuration cannot be used: { $problem }
hint-config = `sortie config schema` has every key; docs/config.md explains them.
error-no-model = No model is configured, no key is set, and no local server answers.
hint-no-model =
    Three ways to get going (`sortie init` finds what is there and remembers it):
      1. a key:            export ANTHROPIC_API_KEY=…   (or OPENAI_API_KEY, GEMINI_API_KEY, DEEPSEEK_API_KEY, …)
      2. a local model:    ollama pull qwen3 && ollama serve
      3. any other server: sortie run --model openai-compatible/NAME -c providers.openai-compatible.base_url=http://…/v1 "…"
    To see Sortie work without any model: sortie demo
error-unanswered = The model did not answer: { $message }
error-no-answer = { $model } did not answer within { $seconds } s.
error-schema = { $path } is not a usable JSON schema: { $problem }
error-nothing-to-replay = The journal of { $id } has been removed, so it cannot be run again.
error-replay = Task { $id } comes out differently at event { $seq }. Journal: { $recorded } Replayed: { $replayed }
doctor-config-todo = Correct the files named, or run `sortie config show` to see the effective values.

# What a run used.
field-total = with subagents
spent-tokens =
    { $cached ->
        [0] { $input } tokens in, { $output } out
       *[other] { $input } tokens in ({ $cached } from the cache), { $output } out
    }
spent-cost = about ${ $cost }
spent-unknown = cost unknown
progress-budget = { $percent } % of its budget is spent
source-user = file of the user
source-project = file of the project
error-web = the configuration under [web] is invalid: { $why }
hint-web = `sortie config show web` shows where it is set

## Approval requests and questions

column-kind = Kind
column-task = Task
column-what = What
column-expires = Expires in
column-reply = Reply
column-hook = Hook
column-events = Events
column-target = Runs
column-pending = Waiting
column-dead = Given up
column-error = Error
column-number = Number
column-rule = Rule
column-by = By
column-at = When
column-layer = Layer
column-source = Source
column-says = Ruling
column-skill = Skill
column-offered = Offered to
field-kind = Kind
field-task-id = Task
field-asked = Asked
field-time-left = Expires in
field-reply = Reply
field-tool = Tool
field-layer = Layer
field-rule = Rule
field-why = Why
field-arguments = Arguments:
field-preview = What would happen:
field-lasting = Rules for --always, the narrowest first:
field-question = Question:
field-options = Options:
field-default = Default if unanswered:
field-asks = Waits for a reply (sortie approvals):
reply-open = open
reply-approved = approved by { $by }
reply-approved-always = approved by { $by }, always: { $rule }
reply-refused = refused by { $by }
reply-refused-because = refused by { $by }: { $words }
reply-answered = answered: { $text }
reply-expired = expired without a reply
approvals-none = Nothing waits for a reply.
approvals-unknown = There is no request { $id }; `sortie approvals list --all` shows them.
approvals-how = To reply: sortie approvals approve { $id } [--always], or sortie approvals deny { $id } --because "…"
approvals-how-answer = To reply: sortie approvals answer { $id } "…"
approvals-is-question = { $id } is a question: sortie approvals answer { $id } "…"
approvals-not-a-question = { $id } asks whether a call may run: sortie approvals approve { $id }, or deny { $id }
approvals-empty-answer = An answer needs words: the question has no default.
approvals-no-rule = No rule is suggested for this call. Approve it once, or name a rule: --always='exec(cargo test)'
approvals-bad-rule = { $rule } is not a rule: { $problem }
approvals-noted = { $id }: { $words }. No process runs the task; continue it with `sortie resume`.
approvals-left = { $id }: { $words }. The process that runs the task will read it ({ $owner }).
approvals-danger = DANGER { $what }
field-exact = { $tool }, exactly:
approvals-run-ended = Too late: the task no longer waits for it.
grants-none = No rules are granted for session { $session }.
grants-revoked =
    { $count ->
        [0] Session { $session } has no such rule.
        [one] { $count } rule of session { $session } was revoked.
       *[other] { $count } rules of session { $session } were revoked.
    }

## Audit and policy

audit-empty = The audit log has no such entries.
audit-checked = { $entries } entries checked; the last hash is { $head }
audit-damaged =
    { $count ->
        [one] The audit log was modified: { $count } problem.
       *[other] The audit log was modified: { $count } problems.
    }
hint-audit = The database was modified outside of Sortie. Back it up, and compare the hash with the one that you saved.
policy-bad-args = --args must be a JSON object, such as '{"{"}"command": "ls"{"}"}'.
policy-no-journal = The journal of { $id } has been removed, and with it what the task was admitted with.
policy-ruling = { $decision }: { $tool } by agent { $agent }
word-yes = yes
word-no = no
field-mode = Mode
field-policy = Policy hash
field-read-only = Read-only
field-taken-away-by = Taken away by
field-dangerous = Dangerous commands allowed
field-sandbox = Sandbox
field-neutralised = Neutralised
field-network = Network in commands
field-isolation = Isolation
field-branch = Branch
field-changes = Changes
field-budget = Budget
field-budget-time = Time for all of it
sandbox-applied = { $mode }; the last command ran in { $backend }
recovered-workspace = { $workspace }: left behind by a crashed process: { $thing }
recover-failed = The workspaces of a crashed process could not be checked: { $problem }
changes-line =
    { $files ->
        [one] { $files } file, +{ $insertions } -{ $deletions }
       *[other] { $files } files, +{ $insertions } -{ $deletions }
    }{ $fate ->
        [applied] {"; applied"}
        [discarded] {"; discarded"}
       *[open] {""}
    }
budget-balance = { $kind }: { $spent } of { $limit } spent, { $reserved } reserved, { $left } left

## Worktrees

changes-no-worktree = Task { $id } has no worktree of its own: it worked in the workspace itself.
changes-nothing = Task { $id } changed nothing in its worktree.
changes-not-yet = Task { $id } has not ended yet; wait for it, or cancel it first.
worktree-applied =
    { $count ->
        [one] { $count } file was changed in the checkout.
       *[other] { $count } files were changed in the checkout.
    }
worktree-discarded = The changes of task { $id } are discarded.

## Agent files, skills and servers of tools

agents-no-files = There are no agent files here or in your home folder.
agent-narrowed = the folder is not trusted: the file can only restrict (`sortie trust` changes that)
field-file = File
field-trust = Trust
field-folder = Folder
field-offered = Offered to
field-wanted-tools = Requested tools
field-unknown-keys = Unknown keys
source-extra = named folder
skills-none = There are no skills here or in your home folder.
skills-unknown = There is no skill '{ $name }'. Known: { $known }
offered-both = models and people
offered-models = models
offered-people = people
offered-none = no one
mcp-no-tool = The server offers no tool { $tool }; `sortie mcp list` shows them.
mcp-tool-approved = { $tool }: approved ({ $fingerprint })
mcp-tool-changed = { $tool }: changed, not offered until `sortie mcp approve { $server }` ({ $fingerprint })
mcp-hidden =
    { $count ->
        [one] { $count } hidden character, escaped here and removed for models
       *[other] { $count } hidden characters, escaped here and removed for models
    }
hooks-none = No hook is configured: see hooks in docs/config.md, or `hooks` of a trusted agent file.
hooks-no-dead = No letter was given up.
hooks-no-letter = There is no letter { $id } that was given up; `sortie hooks dead` lists them.
hooks-unknown = There is no hook { $name }. There are: { $known }
hooks-retried = { $count ->
    [one] One letter will be delivered again.
   *[other] { $count } letters will be delivered again.
}
hooks-dismissed = { $count ->
    [one] One letter was dropped.
   *[other] { $count } letters were dropped.
}
hooks-tested = { $name }: { $answer ->
    [accepted] the request was accepted
    [passed] the command has no objection
    [asks] the command requires an approval
    [blocks] the command denies
   *[failed] failed
} { $words }
mcp-none = No MCP server is configured: see mcp_servers in docs/config.md, or .mcp.json of a trusted folder.
mcp-ready =
    { $count ->
        [one] ready, { $count } tool
       *[other] ready, { $count } tools
    }
mcp-disabled = switched off
mcp-unavailable = not available: { $why }
mcp-changed = CHANGED since it was approved, not offered: { $tool }
mcp-left-out = left out: { $tool }: { $why }
mcp-unknown = There is no server '{ $name }'. Known: { $known }
mcp-nothing-changed = Nothing has changed since it was approved.
mcp-approved = Approved with its current description: { $tool }
doctor-audit = audit
doctor-audit-ok = { $entries } entries, none changed
doctor-audit-damaged = { $count } problems: { $first }
doctor-approvals = approvals
doctor-approvals-none = nothing waits for you
doctor-approvals-open = { $count } waiting for a reply
doctor-approvals-todo = `sortie approvals` shows them.
doctor-mcp = MCP servers
doctor-mcp-none = none configured
doctor-mcp-set = configured: { $names } (`sortie mcp list` starts them)
doctor-sandbox = sandbox
doctor-sandbox-ok = commands run in { $backend }
doctor-sandbox-off = switched off by sandbox.mode: commands of agents have all your permissions
doctor-sandbox-off-todo = Set sandbox.mode to required.
doctor-sandbox-none = no sandbox backend works here, so commands of agents do not run
doctor-sandbox-todo = Install bubblewrap 0.7 or later (sudo apt install bubblewrap), or allow user namespaces.
doctor-bwrap-none = not found, or it does not work here
doctor-cgroups = control groups
doctor-cgroups-on = limits apply to all processes of a command together
doctor-cgroups-off = not available; limits apply to each process

## A server, and its clients

server-name = the server at { $address }
server-still-starting = A server is starting (pid { $pid }) and does not respond yet. Try again in a moment; `sortie status` shows when it is ready.
server-refuses-flag = { $flag } needs exclusive access to the store, which the server at { $address } has. Omit it and set it in the configuration of the server, or stop the server first with `sortie stop`.
server-gone = The server has stopped. Its tasks are kept; continue them with `sortie serve` or `sortie resume`.
left-in-server = Detached. The task continues in the server; follow it with `sortie tasks show { $id }`.
left-all-in-server = Detached. The tasks continue in the server; follow them with `sortie tasks watch`.
abandoned-in-server = Detached at once. The server continues to cancel the task.
asked-elsewhere = [{ $agent }] { $label } waits for a decision: `sortie approvals show { $id }`
reply-not-sent = Your reply was not delivered: { $problem }.
spawn-in-server = Subagent [{ $label }] is queued (ID: { $id }). The server runs it.
resume-waits =
    { $count ->
        [one] The server executes all unfinished tasks; waiting for { $count } task.
       *[other] The server executes all unfinished tasks; waiting for { $count } tasks.
    }
pause-done = Task { $id } pauses after its current step. Continue it with `sortie tasks resume { $id }`.
unpause-done = Task { $id } continues.
retry-done = Task [{ $label }] is queued again (ID: { $id }).
control-left = It is noted for task { $id }. { $owner } has not applied it yet; it does so as soon as it can, or the next process that opens the store.
run-paused = Paused from another terminal. Continue with `sortie tasks resume { $id }`, or stop with Ctrl-C.
cancel-session-done = Session { $session }: { $count } active tasks are cancelled.
cancel-session-left = Session { $session }: it is noted that { $count } active tasks are to be cancelled. { $owner } has not applied all of it yet; it does so as soon as it can, or the next process that opens the store.
steer-done = Task { $id } reads it before its next step.
telemetry-off = No traces are sent: { $problem }
serve-listening = Serving { $home } at { $address }. Ctrl-C stops.
serve-link = Open in a browser, once, within 5 minutes: { $url }
serve-open = `sortie open` prints a link for a browser.
serve-not-loopback = This address can be reached from other machines: put TLS in front of it, and name its hosts with --host or server.hosts. Every request needs a key.
serve-resumed =
    { $count ->
        [one] { $count } unfinished task of an earlier process continues.
       *[other] { $count } unfinished tasks of an earlier process continue.
    }
serve-stopping = Stopping: runs go back to the queue. Press Ctrl-C again to exit at once.
serve-stopped = Stopped. Running tasks are back in the queue; continue them with `sortie serve` or `sortie resume`.
worker-started = Worker { $id } executes tasks of the shared store. Ctrl-C stops.
worker-stopped = Stopped. Its tasks are back in the queue.
worker-too-many-labels = A worker has at most { $max } labels.
no-workers = No worker is listed. A store in a file has one process; a shared store lists its workers while they run (`sortie worker`).
no-tenants = No tenant has tasks or quotas. `[tenants.NAME]` in the configuration sets quotas; `sortie keys create --tenant NAME` creates a key.
column-day = Day
column-weight = Weight
column-running = Running
column-queued = Queued
column-quota = Quota
column-used = Used
column-limit = Limit
column-resets = Resets
serve-limit-needs-workers = --limit 0 needs workers, which need a database: set store = "postgres://…".
serve-no-page = This binary was built without the web page; the API works.
serve-no-model = No model is configured and none was found: every task must name one.
serve-bad-listen = { $text } is not an address to listen on; write one like 127.0.0.1:7878 or [::1]:7878.
serve-bad-tenant = server.tenants.{ $name }: { $problem }
hint-model-key = Set the key that belongs to this provider, and try it: sortie models check { $model }
hint-model-name = `sortie models list` shows what can be used; try a name with: sortie models check { $model }
hint-model-silent = Try the provider: sortie models check { $model }; then run the task again: sortie tasks retry { $id }
error-no-repository = --isolation worktree needs a git repository, and { $path } is not in one.
hint-no-repository = Make it one: git init && git add --all && git commit -m start; or leave out --isolation to work in the folder itself.
hint-server-runs = Commands use it by themselves; `sortie open` prints a link for a browser, `sortie stop` stops it.
serve-already = A server already listens at { $address } (pid { $pid }).
serve-already-starting = A server is already starting (pid { $pid }).
open-browser-failed = No browser could be started ({ $problem }); open the link yourself.
no-server = No server is running for this store. `sortie serve` starts one.
status-running = A server listens at { $address } since { $since } (pid { $pid }, version { $version }).
status-tasks = { $running } running, { $pending } waiting, { $requests } open requests.
status-broken = The server at { $address } (pid { $pid }) responds but is not ready: { $problem }
status-silent = A server should be at { $address } (pid { $pid }), but does not respond: { $problem }
status-starting = A server is starting (pid { $pid }).
status-none = No server is running for this store.
stop-asked = The server (pid { $pid }) was asked to stop.
stop-done = The server (pid { $pid }) has stopped.
stop-slow = The server (pid { $pid }) was asked to stop and is still running after { $seconds } s.
stop-elsewhere = The server reports process id { $pid }, which is not the server's process on this machine: the server runs in a container or on another machine. Stop it there.
keys-none = There are no keys. The first `sortie serve` creates one.
keys-created = Key { $id } ({ $name }, { $role }) was created. Its token is shown only once, here:
keys-rotated = Key { $id } ({ $name }) has a new token, which is shown only once, here:
keys-revoked = Key { $id } ({ $name }) is revoked.
keys-bad-time = { $text } is not a duration; write one like 90s, 30m, 12h or 30d.
column-name = Name
column-role = Role
column-tenant = Tenant
column-ends = Expires
error-token = The token in { $path } cannot be read.
hint-token = `sortie serve` writes it when it starts; run the server as the same user. `sortie keys list` shows the keys.
error-server = { $problem }.
hint-server = `sortie status` shows the state of the server. If it hangs, kill its process; nothing is lost.
error-stranger = The process that listens at { $address } is not this server; no token was sent to it.
hint-stranger = Stop the server of this store with `sortie stop`, then run `sortie serve`; choose another port if another program uses that one.
error-listen = The server cannot listen on { $address }.
hint-listen = If another program has the port, choose another one with --listen 127.0.0.1:PORT or server.listen; port 0 is any free one.
error-serve = The server stopped with an error.
doctor-server = server
doctor-server-none = none; commands open the store themselves
doctor-server-running = at { $address }, pid { $pid }
doctor-server-starting = starting, pid { $pid }
doctor-server-stale = { $path } was left behind by a server that died (pid { $pid })
doctor-server-stale-todo = No action needed: the next `sortie serve` replaces it.
doctor-files = private files
doctor-files-ok = only you can read and change them
danger-foreign-owner = belongs to another user (uid { $owner })
danger-writable = can be written by other users (mode { $mode })
danger-link = is a symbolic link
danger-folder = is a folder
danger-no-folder = is not a folder
danger-special = is not a regular file
error-unsafe = { $path } { $danger }, so another user could have changed it.
error-leaked = Other users can read { $path }, so the secret in it is no longer secret.
private-wide = { $path } has a mode that lets other users in, but they cannot reach it.
private-repaired = { $path } was open to other users; its mode is 0600 now.
private-token-repaired = { $path } was open to other users; its mode is 0600 now. If one of them could reach it, replace the token: sortie keys list, then sortie keys rotate ID
private-repair-todo = The next command tightens it: chmod 600 "{ $path }"
private-owner-todo = Check that its content is yours, then run: sudo chown "$(id -un)" "{ $path }" (or set SORTIE_HOME to another folder)
private-writable-todo = Check that its content is yours, then run: chmod go-w "{ $path }" (with sudo if it is not yours, or set SORTIE_HOME to another folder)
private-kind-todo = Move it away: mv "{ $path }" "{ $path }.old"
private-rotate-todo = Replace the token: sortie keys rotate { $id }
private-restart-todo = Restart the server: it creates a new secret.
server-file-damaged = { $path } was not written by a server; it is ignored and replaced.
doctor-port = port
doctor-port-free = { $address } is free
doctor-port-own = { $address } is the server's
doctor-port-taken = { $address } cannot be listened on: { $problem }
doctor-port-todo = Choose another one with server.listen or `sortie serve --listen`.
doctor-open-files = open files
doctor-open-files-found = a server may have up to { $most } files and connections open
doctor-open-files-todo = Raise the hard limit (ulimit -Hn, or LimitNOFILE in the unit of the service) to 65536: a few unauthenticated connections could use up the descriptors that the store needs.

## The store

store-checked = The store is sound: { $tasks } tasks, { $entries } journal entries, { $audit } audit entries; schema version { $version }
store-summary = { $tasks } tasks, { $entries } journal entries, { $audit } audit entries; schema version { $version }
store-damaged = The store is damaged.
hint-store-damaged = Keep a copy of it, and restore a backup: docs/operations.md
store-current = The store is up to date (schema version { $version }).
store-migrated = The store now has schema version { $version }.
store-copied = Copied and checked: { $tasks } tasks, { $entries } journal entries, { $audit } audit entries
store-backed-up = Backed up and checked: { $tasks } tasks, { $entries } journal entries, { $audit } audit entries
store-use-file = To use the file, remove `store` from your configuration.
store-copy-reading = reading { $table }
store-copy-rows = copying { $table }: { $rows } rows
store-copy-checking = checking the copy
## The conversation

chat-greeting = Enter sends, Alt-Enter starts a new line, Esc interrupts, /help lists commands.
chat-server-model = the server's model
chat-plain = Each line is a message. /quit or Ctrl-D leaves.
chat-nothing-to-continue = There is no earlier conversation in this folder; a new one begins.
chat-return = Return to this conversation: sortie --resume { $id }
chat-left-queued =
    { $count ->
        [one] { $count } task has not ended. It is kept in the queue; continue it with `sortie resume`.
       *[other] { $count } tasks have not ended. They are kept in the queue; continue them with `sortie resume`.
    }
chat-left-in-server =
    { $count ->
        [one] { $count } task continues in the server.
       *[other] { $count } tasks continue in the server.
    }
chat-leave-hint = Press Ctrl-C again to leave.
chat-leave-question = Tasks are running. [k] keep them for later  [c] cancel them  [Esc] stay
chat-working = Working · { $elapsed } · Esc interrupts, Ctrl-C stops
chat-paused = Interrupted. Type what to change, or press Enter to continue; Ctrl-C stops the turn.
chat-stopping = Stopping …
chat-stopped = Stopped.
chat-queued = queued
chat-more-tasks =
    { $count ->
        [one] … and { $count } more task
       *[other] … and { $count } more tasks
    }
chat-more-todos =
    { $count ->
        [one] … and { $count } more item
       *[other] … and { $count } more items
    }
chat-announced = report of [{ $agent }] { $label }
chat-asks = { $agent } [{ $label }] asks:
chat-answer-mark = answer>{ " " }
chat-keys-approval = Allow? [y] yes  [n] no  [a] always in this session  [d] no, and say why
chat-keys-once = Allow? [y] yes  [n] no  [d] no, and say why
chat-keys-danger = DANGER. Type yes and press Enter to allow it  [n] no  [d] no, and say why
chat-keys-reason = Why not? Enter sends the reason.
chat-keys-question = Type the answer or the number of an option.
chat-keys-more =
    { $count ->
        [one] ({ $count } more waits)
       *[other] ({ $count } more wait)
    }
chat-unknown = There is no command /{ $name }. /help lists all commands.
chat-unknown-near = There is no command /{ $name }. Did you mean { $near }?
chat-usage-steer = Write /steer ID TEXT.
chat-no-turn = This conversation has no turn yet.
chat-no-request = No such approval request is open.
chat-not-approval = This is a question: type the answer.
chat-model = The model is { $model }. Choose another with /model VENDOR/MODEL.
chat-model-set = The next turn uses { $model }.
chat-mode = The mode is { $mode }; possible are { $known }.
chat-mode-set = The next turn runs in mode { $mode }.
chat-bad-mode = There is no mode { $word }; possible are { $known }.
chat-budget = Each turn may spend at most ${ $usd }, with its tasks.
chat-budget-none = No budget is set. Set one with /budget 0.50.
chat-bad-budget = { $word } is not an amount; write US dollars such as 0.50.
chat-fork-running = The turn still runs; wait for its end or stop it with Ctrl-C before you fork.
chat-forked = This is now { $now }, with the history of { $before }, which stays as it is.
chat-new = A new conversation begins: { $now }.
chat-resume-hint = /resume ID opens one of them.
chat-applied =
    { $count ->
        [one] Applied the changes of { $count } file:
       *[other] Applied the changes of { $count } files:
    }
chat-help =
    /tasks            tasks of this conversation     /task [ID]    one of them
    /result [ID]      the result of a task           /diff [ID]    its changes
    /report [ID]      how it delegated, with costs   /apply [ID]   applies its changes
    /cancel [ID]      cancels it                     /resume [ID]  another conversation
    /steer ID TEXT    adds to its instruction        /usage        tokens and cost
    /approve, /deny   decides the open request       /agents       lists agents
    /model [NAME]     shows or sets the model        /mode [MODE]  when to ask you
    /budget [USD]     limits the cost of a turn      /clear        clears the screen
    /fork [ID]        branches off a turn            /new          a new session
    /quit             leaves
    Enter sends; Alt-Enter, or \ and Enter, starts a new line. Tab completes
    commands, @files and ids. Up and Down recall earlier messages. Esc interrupts
    the turn, Ctrl-C stops it. Ctrl-C twice, or Ctrl-D, leaves.
notify-needed = Sortie needs you: { $label }
notify-done = Sortie has finished: { $label }
next-changes = The changes are in a worktree and not in your checkout: sortie tasks diff { $id }, then sortie tasks apply { $id }
error-no-session = there is no conversation { $id }; `sortie --continue` opens the last one of this folder
session-busy = session { $session } has a turn that has not ended; wait for it with `sortie tasks watch`, or add to it with `sortie tasks steer { $id } TEXT`

## sortie init

init-keys = API keys in the environment: { $names }
init-servers = Model servers on this machine: { $names }
init-none = none
init-origin-key = key of { $vendor }
init-which-model = Which model? [1-{ $count }, Enter is 1]{" "}
init-which-number = Type a number from 1 to { $count }.
init-model-set = Model: { $model } ({ $origin }), written to { $path }.
init-model-kept = Model: { $model }, as configured; change it with `sortie init --model` or `sortie config set model`.
init-no-model = Model: none can be used yet.
init-agent = Create an example agent, { $path }?
init-agent-written = Wrote { $path }: an agent that reviews changes. Edit it, or add others beside it.
init-trust = Trust { $path }? Its sortie.toml, agents and MCP servers then get everything they ask for.
init-next = Ready. `sortie` opens a conversation; `sortie run explain this project` runs one task.
init-next-agent = Ready. `sortie` opens a conversation; `sortie spawn --agent reviewer look at the last change` runs the new agent.
init-next-demo = Without a model, `sortie demo` shows how Sortie works. Run `sortie init` again when you have one.

## sortie top

top-no-terminal = `sortie top` needs a terminal. `sortie tasks watch` prints changes line by line; `sortie tasks list` prints once.
top-no-process = no process runs tasks (`sortie resume` continues them)
top-header = { $running } running, { $pending } pending
top-people =
    { $count ->
        [one] one task needs you
       *[other] { $count } tasks need you
    }
top-detail = Detail
top-timeline = Timeline
top-log = Log
top-keys = ↑↓ select · Tab view · a d decide · s steer · p pause · c cancel · ? help
top-decide = a approves this call · d denies it · Enter answers a question
top-now = now: { $call }
top-no-request = This task asks for nothing. Select one that needs you.
top-has-ended = This task has ended.
top-nothing-done = Nothing was done.
top-answer = Answer:
top-deny = Deny, and say why (n REASON):
top-danger = Dangerous. Type yes to approve it:
top-cancel = Cancel { $id } and its subagents? [y/N]
top-steer = Message for { $id }:
top-cancelled = Cancelled.
top-steered = Sent; the task reads it before its next step.
top-paused = Paused.
top-unpaused = Resumed.
top-approved = Approved.
top-denied = Denied.
top-answered = Answered.
top-too-late = Too late: it was answered elsewhere, or the task has ended.
top-help =

    ↑ ↓, k j      select a task; Home and End, g G: the first and the last
    Tab, 1 2 3    detail, timeline, log;  PgUp PgDn: scroll

    a, Enter      approve the call, or answer the question, of the selected task
    d             deny the call, with words that the agent reads
    s             steer: a message that the task reads before its next step
    p             pause the task and its subagents, or resume them
    c             cancel the task and its subagents; asks first

    q, Esc        leave; tasks are not affected

## Delegation report

report-title = Delegation report: { $label }
report-summary =
    { $count ->
        [one] { $id }: { $status }, { $time }, { $count } task, { $tokens } tokens, cost { $cost }
       *[other] { $id }: { $status }, { $time }, { $count } tasks, { $tokens } tokens, cost { $cost }
    }
report-so-far = The task has not ended; all numbers are those so far.
report-estimate = Did delegating pay off? An estimate
report-no-children = Nothing was delegated: the task has no subagents.
report-paid-off = Delegating paid off.
report-mixed = Mixed: delegating saved one of time and prompt text, and cost more of the other.
report-even = About even: within a tenth of one agent that does everything.
report-cost-more = Delegating cost more than one agent that does everything.
report-unknown = Unknown: the journal of a task was removed.
report-estimate-time = Time: { $delegated } with subagents, without waits for people; about { $alone } if one agent had made the same model and tool calls one after the other.
report-estimate-text = Prompt text: { $delegated } sent by all tasks; about { $alone } if all work had stayed in one context ({ $tokens }).
report-tokens-less = about { $count } tokens less with subagents
report-tokens-more = about { $count } tokens more with subagents
report-estimate-basis = Basis: the journals of the tasks, 4 bytes per token. Prompt caches and a different course of the work are not considered.
report-tasks = Tasks
report-column-task = Task
report-column-critical = Critical
report-column-waits = Waits
report-column-tokens = Tokens
report-column-cost = Cost
report-column-context = Context
report-column-announced = Reported
report-more-tasks =
    { $count ->
        [one] { $count } more task; --json has all that are known
       *[other] { $count } more tasks; --json has all that are known
    }
report-critical = Critical path: what the result waited for
report-column-waited = Waited for
report-column-share = Share
report-more-steps =
    { $count ->
        [one] { $count } shorter step is not shown
       *[other] { $count } shorter steps are not shown
    }
report-duplicates = Duplicate work of siblings
report-no-duplicates = None: no file, folder, page or search was used by two subagents of one parent.
report-column-kind = Kind
report-column-what = What
report-column-calls = Calls
report-column-repeated = Repeated
report-column-by = By
report-kind-file = file
report-kind-folder = folder
report-kind-search = search
report-kind-page = page
report-more-duplicates =
    { $count ->
        [one] { $count } smaller duplicate is not shown
       *[other] { $count } smaller duplicates are not shown
    }
report-context = Context of the parents
report-context-saved = Subagents read and wrote { $children } in their own contexts; instructions and reports put { $parents } into the contexts of their parents: { $saved } stayed out.
report-context-lost = Subagents read and wrote { $children } in their own contexts; instructions and reports put { $parents } into the contexts of their parents: { $lost } more than the work itself.
activity-slot = slot
activity-model = model
activity-rate-limit = rate limit
activity-tool = tool
activity-approval = approval
activity-question = answer
activity-children = children
activity-paused = paused
activity-other = other
