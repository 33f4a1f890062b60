### What the command line says.

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
        [0] waits for the provider's rate limit, place { $position }
       *[other] waits for the provider's rate limit, place { $position }, about { $seconds } s
    }
progress-place = rate limit, place { $position }
progress-retrying = asking { $model } after: { $error }
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

## How a command goes on and ends

offline-model = The built-in offline model is in use: it follows fixed rules and understands no language. Choose another with --model or SORTIE_MODEL.
leftovers =
    { $count ->
        [one] { $count } task that an earlier process left unfinished goes on as well; `sortie resume` waits for it.
       *[other] { $count } tasks that an earlier process left unfinished go on as well; `sortie resume` waits for them.
    }
stopping = Cancelling; waiting until everything has stopped. Press Ctrl-C again to leave at once.
cancel-reason-interrupt = stopped with Ctrl-C
cancel-reason-command = stopped with `sortie tasks cancel`
cancel-reason-delete = it is to be deleted
terminated = Stopped by a signal. What was running is back in the queue: `sortie resume` goes on with it.
abandoned = Left at once. What was running is kept as it was: `sortie resume` goes on with it.
kept-text = It had said this much:
kept-child = Kept: the result of [{ $agent }] { $label } (sortie tasks result { $id })
kept-look = For everything that was kept: sortie tasks show { $id }
delivery-blocked = The result could not be delivered: { $error }
demo-intro = Three subagents look through { $path }. No network and no key are used.
demo-label = survey this folder
demo-prompt = Survey this project: send out three explorers for its layout, its documentation and its hot spots, and combine their reports into one overview.
spawn-queued = Subagent [{ $label }] is queued (ID: { $id }). `sortie resume` runs it.
resume-nothing = There is nothing to resume.
resume-found = Found: { $resumed } to go on with, { $queued } in the queue, { $undelivered } to deliver, { $given_up } given up.
resume-ended = Task { $id } has already ended: { $status }.

## Asking the person at the terminal

approval-question = Allow { $agent } [{ $label }] to run { $tool }: { $what }? [y/N/a = always for this run]
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
        [one] { $count } character is not shown below, at […]
       *[other] { $count } characters are not shown below, at […]
    }

## Tasks

column-id = ID
column-status = Status
column-agent = Agent
column-label = Label
column-progress = Progress
column-tools = Tools
column-elapsed = Elapsed
column-waiting = Waiting on
column-model = Model
column-access = Access
column-when = When to use
waiting-queue = slot { $position }
waiting-blocked = delivery blocked
no-tasks = There are no tasks.
no-transcript = The transcript has been removed; `sortie tasks show` has what is kept.
stats-total = total
result-not-yet = Task { $id } has no result yet: it is { $status }.
watch-nothing = Nothing is running.
watch-left-alone = No process is running what is left: `sortie resume` goes on with it.
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
field-id = ID
field-label = Label
field-status = Status
field-reason = Reason
field-waiting = Waiting on
field-position = Place in the queue
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

## What goes wrong

error-line = error: { $message }
error-cause = {"  "}because: { $cause }
error-hint = {"  "}hint: { $hint }
error-model = The model cannot be used: { $message }
hint-model = `sortie models list` shows what can be used; `sortie demo` needs no model.
error-no-agent = There is no agent '{ $name }'.
hint-no-agent = Known agents: { $known }.
error-short-id = '{ $id }' is too short for an id; at least { $min } characters are needed.
error-not-found = There is no task { $id }.
error-ambiguous = { $prefix } is the beginning of { $count } ids.
hint-id = `sortie tasks list --all` shows the ids.
error-no-home = This system has no data folder for Sortie.
hint-no-home = Name one with --home or SORTIE_HOME.
error-workspace = The folder { $path } cannot be worked in.
hint-workspace = Name an existing folder with --workspace.
error-input = The instruction could not be read from stdin.
error-empty-input = The instruction is empty.
hint-empty-input = Say what is to be done: sortie run "Explain this project".
error-sink = '{ $address }' is not a place for results.
hint-sink = Write it as file:PATH.
error-output = The output could not be written.
error-process = The operating system did not give the process what it needs.
error-locked = The store is in use by { $owner }.
hint-locked = Wait until it is done, or stop it there with Ctrl-C. `sortie tasks list`, `show` and `watch` work meanwhile; another --home has its own store.
error-damaged = The journal of task { $id } is damaged at entry { $seq }: { $what }
hint-damaged = `sortie doctor` checks the whole store. Keep a copy of it before you change anything.
error-wrong-state = Task { $id } is { $status }: { $what }
error-store = The store could not { $doing }.
hint-store = `sortie doctor` says what is wrong with it.
error-fenced = The claim on task { $id } is no longer valid.

## sortie doctor

doctor-ok = ok
doctor-warn = warn
doctor-fail = fail
doctor-todo = → { $todo }
doctor-unknown = cannot be found out
doctor-not-found = not found
doctor-home = home
doctor-home-new = { $path } (will be made)
doctor-home-read-only = { $path } cannot be written
doctor-home-todo = Give yourself the right to write there, or choose another folder with --home.
doctor-disk = disk
doctor-disk-free = { $gigabytes } GB free
doctor-disk-todo = Make room; the store refuses work when the disk is full.
doctor-store = store
doctor-store-ok = can be read
doctor-store-todo = Keep a copy of the folder; then see whether a newer sortie can open it.
doctor-journal = journals
doctor-journal-ok = { $runs } checked, { $entries } entries, none damaged
doctor-journal-damaged = { $count } damaged: { $first }
doctor-journal-todo = Somebody or something changed the database. Restore it from a copy, or delete the tasks named here.
doctor-tasks = tasks
doctor-tasks-found = { $active } active, { $blocked } with a blocked delivery
doctor-tasks-todo = No process is running them: `sortie resume` goes on with them.
doctor-lock = lock
doctor-lock-free = free
doctor-lock-held = held by { $owner }
doctor-bwrap = bubblewrap
doctor-bwrap-todo = Install bubblewrap, so that shell commands of agents can be confined.
doctor-landlock = Landlock
doctor-landlock-on = on
doctor-landlock-off = off
doctor-landlock-todo = Only a second line of defence; a kernel with `landlock` in its list of security modules has it.
doctor-namespaces = user namespaces
doctor-namespaces-on = allowed
doctor-namespaces-off = switched off
doctor-namespaces-todo = Bubblewrap needs them; see user.max_user_namespaces and kernel.unprivileged_userns_clone in sysctl.
doctor-keys = keys
doctor-keys-none = none set; the offline model needs none
doctor-keys-set = set: { $names }
doctor-model = model
doctor-model-ok = { $name } is ready
doctor-git = git
doctor-git-todo = Install git, so that agents can look at the history of a project.
doctor-language = language

# Models and configuration.
model-found = Using { $model } ({ $origin }); choose another with --model or `sortie config set model`.
models-server = A server answers at { $address }: { $models }
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
column-tasks = Tasks
column-input = Input
column-cached = From cache
column-output = Output
column-cost = Cost (estimated)
usage-total = all
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
trust-no = not trusted: it can only narrow; `sortie trust` changes that
trust-given = { $path } is trusted: its sortie.toml may set everything. `sortie trust --revoke` takes it back.
trust-revoked = { $path } is no longer trusted.
trust-not-there = { $path } was not trusted.
trust-still = It is still trusted as a part of { $path }; revoke that folder.
trust-empty = No folder is trusted.
replay-identical =
    { $runs ->
        [one] Replayed { $runs } task, { $events } events: the same journal to the byte (sha256 { $digest }).
       *[other] Replayed { $runs } tasks, { $events } events: the same journals to the byte (sha256 { $digest }).
    }
replay-forked = Task { $id } goes on from event { $at } of { $from }.
error-config = The configuration cannot be used: { $problem }
hint-config = `sortie config schema` has every key; docs/config.md explains them.
error-no-model = No model is configured, no key is set, and no local server answers.
hint-no-model =
    Three ways to get going:
      1. a key:            export ANTHROPIC_API_KEY=…   (or OPENAI_API_KEY, GEMINI_API_KEY, DEEPSEEK_API_KEY, …)
      2. a local model:    ollama pull qwen3 && ollama serve
      3. any other server: sortie run --model openai-compatible/NAME -c providers.openai-compatible.base_url=http://…/v1 "…"
    To see Sortie work without any model: sortie demo
error-unanswered = The model did not answer: { $message }
error-no-answer = { $model } did not answer within { $seconds } s.
error-schema = { $path } is not a usable JSON schema: { $problem }
error-nothing-to-replay = The journal of { $id } has been removed, so it cannot be run again.
error-replay = Task { $id } comes out differently at event { $seq }. Journal: { $recorded } Replayed: { $replayed }
doctor-config-todo = Correct the files named, or run `sortie config show` to see what holds.

# What a run used.
run-spent = Used: { $spent }.
field-total = with subagents
spent-tokens =
    { $cached ->
        [0] { $input } tokens in, { $output } out
       *[other] { $input } tokens in ({ $cached } from the cache), { $output } out
    }
spent-cost = about ${ $cost }
spent-unknown = cost unknown
