### 命令行的消息。

## 进度行

# 契约：`[explore] find auth files ... 5 tools, 3.2s`。缩进加在它前面。
progress-started = [{ $agent }] { $label } ... 开始
progress-running = [{ $agent }] { $label } ... 已用 { $work }
progress-done = [{ $agent }] { $label } - 完成（{ $work }）
progress-failed = [{ $agent }] { $label } - 失败：{ $why }（{ $work }）
progress-timeout = [{ $agent }] { $label } - 超时（{ $work }）
progress-cancelled = [{ $agent }] { $label } - 已取消（{ $work }）
# $seconds 已经写好。
progress-held =
    { $seconds ->
        [0] 等待提供方的速率限制，第 { $position } 位
       *[other] 等待提供方的速率限制，第 { $position } 位，约 { $seconds } 秒
    }
progress-place = 速率限制，第 { $position } 位
progress-retrying = 改用 { $model } 重试，原因：{ $error }
progress-compacted = 历史已从 { $before } 个字符缩短到 { $after } 个字符
progress-work = { $tools } 次工具调用，{ $seconds } 秒
progress-waiting = [{ $agent }] 正在等待 { $count } 个子 Agent：{ $list }

## 命令的继续与结束

offline-model = 正在使用内置的离线模型：它只按固定规则工作，并不理解语言。可用 --model 或 SORTIE_MODEL 选择其他模型。
leftovers = 之前的进程留下的 { $count } 个未完成任务也会继续运行；用 `sortie resume` 可以等待它们完成。
stopping = 正在取消，等待全部停止。再按一次 Ctrl-C 立即退出。
cancel-reason-interrupt = 用 Ctrl-C 停止
cancel-reason-command = 用 `sortie tasks cancel` 停止
terminated = 已被信号停止。正在运行的任务已放回队列：用 `sortie resume` 继续。
abandoned = 已立即退出。正在运行的任务保持原样：用 `sortie resume` 继续。
kept-text = 已有的文本：
kept-child = 已保留：[{ $agent }] { $label } 的结果（sortie tasks result { $id }）
kept-look = 查看全部保留内容：sortie tasks show { $id }
delivery-blocked = 结果未能送达：{ $error }
demo-intro = 三个子 Agent 正在查看 { $path }。不使用网络，也不需要密钥。
demo-label = 探索这个文件夹
demo-prompt = 探索这个项目：派出三个探索者，分别查看布局、文档和热点，再把他们的报告合并成一份概览。
spawn-queued = 子 Agent [{ $label }] 已加入队列 (ID: { $id })。用 `sortie resume` 运行它。
resume-nothing = 没有需要继续的任务。
resume-found = 继续：{ $parts }。
resume-ended = 任务 { $id } 早已结束：{ $status }。

## 询问终端前的人

approval-asks = { $agent } [{ $label }] 请求执行 { $tool }：
approval-question = 允许 { $agent } [{ $label }] 执行 { $tool }？[y/N/a1…]
approval-question-once = 允许 { $agent } [{ $label }] 执行 { $tool }？[y/N]
approval-question-danger = 输入 yes 允许 { $agent } [{ $label }] 执行 { $tool }；其他任何输入都表示拒绝：
approval-danger = 危险：{ $why }（{ $command }）；建议：{ $instead }
withdrawn = 已撤回：{ $reason }
withdrawn-replied = { $by } 已于 { $at } 在别处答复：{ $words }
withdrawn-expired = 已于 { $at } 过期，无人答复
withdrawn-ended = 任务不再等待答复
replied-approved = 已批准
replied-approved-always = 已批准，并始终允许：{ $rule }
replied-denied = 已拒绝
replied-denied-because = 已拒绝：{ $words }
replied-by-parent = 上级 Agent
replied-by-person = 用户
answer-late = 太迟了，您的答复没有生效：{ $reason }
line-begun-before = 这一行在问题显示之前就已开始输入，不作为答复。请重新输入。
approval-reason = 原因：{ $reason }
approval-reason-mode = { $mode } 模式下，会改变内容的调用需要先批准
approval-lasting = a{ $number } = 本会话一直允许：{ $rule }
question-prompt = { $agent } [{ $label }] 提问；您的回答：
question-prompt-default = { $agent } [{ $label }] 提问；您的回答（回车表示 { $default }）：
approval-size = { $lines } 行，{ $bytes } 字节
approval-more = … 还有 { $count } 行
approval-hidden = 有 { $count } 个字符没有显示（在 […] 处）；用 `sortie approvals show { $id }` 查看全部

## 任务

column-id = 编号
column-status = 状态
column-agent = Agent 类型
column-label = 标签
column-tools = 工具
column-elapsed = 用时
column-note = 备注
column-age = 创建于
column-folder = 文件夹
column-model = 模型
column-access = 权限
column-when = 何时使用
waiting-queue = 排队第 { $position } 位
waiting-blocked = 送达受阻
status-needs-person = 等你处理
status-paused = 已暂停
status-pending = 排队中
status-of-running = 运行中
status-completed = 已完成
status-failed = 失败
status-timeout = 超时
status-cancelled = 已取消
waiting-model = 模型
waiting-tool = 工具
waiting-approval = 审批
waiting-question = 回答
waiting-children = 子代理
waiting-children-count = 已完成 { $ended }/{ $all }
waiting-slot = 空位
waiting-rate-limit = 限流
count-tools = { $count } 次工具调用
list-folded = … 另有 { $count } 个任务：sortie tasks list --parent { $id }
list-left-alone = 有 { $count } 个任务尚未结束，但没有进程在执行；运行 `sortie resume` 继续。
no-tasks = 没有任务。
no-transcript = 对话记录已被清除；`sortie tasks show` 可查看保留的内容。
stats-total = 合计
result-not-yet = 任务 { $id } 还没有结果：状态为 { $status }。
watch-nothing = 没有正在运行的任务。
watch-left-alone = 没有进程在运行剩下的任务：用 `sortie resume` 继续。
cancel-done =
    { $count ->
        [1] 任务 { $id } 已取消。
       *[other] 任务 { $id } 及其启动的任务已取消，共 { $count } 个。
    }
cancel-already-ended = 任务 { $id } 早已结束：{ $status }。没有做任何更改。
delete-done =
    { $count ->
        [1] 任务 { $id } 已删除。
       *[other] 任务 { $id } 及其启动的任务已删除，共 { $count } 个。
    }
clean-done =
    { $count ->
        [0] 没有足够旧的任务可删除。
       *[other] 已删除 { $count } 个任务。其用量和审计记录保留。
    }
clean-would-delete =
    { $count ->
        [0] 没有足够旧的任务可删除。
       *[other] 将删除 { $count } 个任务。
    }
field-verdict = 结论
field-check = 检查
field-id = 编号
field-handle = 短号
field-label = 标签
field-status = 状态
field-reason = 原因
field-waiting = 等待
field-position = 排队位置
field-progress = 进度
field-agent = Agent 类型
field-model = 模型
field-session = 会话
field-parent = 上级
field-created = 创建
field-started = 开始
field-ended = 结束
field-elapsed = 用时
field-tools = 工具
field-tokens = Token 数
field-delivery = 送达
field-delivery-error = 送达错误
field-task = 任务：
field-children = 子任务：
field-error = 错误：
field-result = 结果：
field-name = 名称
field-when = 何时使用
field-access = 权限
field-source = 来源
field-max-iterations = 迭代次数

## Agent

model-inherit = 与上级相同
model-small = 小模型
model-plan = 规划模型
access-read-only = 只读
access-full = 完整
tools-all = 全部
tools-except = { $allowed }；不含 { $denied }
source-built-in = 内置
source-embedder = 嵌入程序

## 出错时

error-line = 错误：{ $message }
error-cause = {"  "}原因：{ $cause }
error-hint = {"  "}提示：{ $hint }
error-model = 无法使用该模型：{ $message }
hint-model = `sortie models list` 显示可用的模型；`sortie demo` 不需要模型。
error-no-agent = 没有名为 '{ $name }' 的 Agent。
hint-no-agent = 已知的 Agent：{ $known }。
error-short-id = '{ $id }' 既不是短号也不是 ID；短号有 4 到 6 个字符，ID 至少需要 { $min } 个字符。
error-not-found = 没有任务 { $id }。
error-ambiguous = 有 { $count } 个 ID 以 { $prefix } 开头。
hint-id = 用 `sortie tasks list --all` 查看短号。
error-no-home = 这个系统没有可供 Sortie 使用的数据目录。
hint-no-home = 请用 --home 或 SORTIE_HOME 指定一个。
error-home = 文件夹 { $path } 不能存放 Sortie 的数据。
hint-home = 请用 --home 或 SORTIE_HOME 指定一个可写的文件夹。
error-file = 无法写入 { $path }。
error-no-agent-near = 没有名为 '{ $name }' 的 Agent；你是指 '{ $near }' 吗？
spawn-waits = 任务 { $id } [{ $label }] 已启动，正在等待结果。按 Ctrl-C 取消。
resume-resumed = { $count } 个中断的任务
resume-queued = { $count } 个排队的任务
resume-undelivered = { $count } 个待送达的结果
resume-given-up = { $count } 个因进程多次崩溃而放弃的任务
resume-waiting = 继续等待子代理的任务。
doctor-config = 配置
doctor-all-ok = 一切正常。
doctor-warned = { $count } 条警告；不影响使用。
doctor-failed = { $failed } 项失败，{ $warned } 条警告。
error-workspace = 无法在目录 { $path } 中工作。
hint-workspace = 请用 --workspace 指定一个存在的目录。
error-input = 无法从标准输入读取指令。
error-empty-input = 指令为空。
hint-empty-input = 请说明要做什么：sortie run "解释这个项目"。
error-long-input = 指令超过 { $max } 个字符。
hint-long-input = 请把材料放进文件，并在指令中写明文件名。
error-sink = '{ $address }' 不是有效的投递地址。
hint-sink = 请写成 file:路径。
error-output = 无法写出结果。
error-process = 操作系统拒绝提供进程所需的资源。
error-locked = 存储正被 { $owner } 使用。
hint-locked = 请等它完成，或在那边按 Ctrl-C 停止。期间可以使用 `sortie top` 和 `sortie tasks list`、`show`、`watch`、`cancel`、`steer`、`pause`、`resume`；换一个 --home 则使用另一个存储。运行 `sortie serve` 后，多个命令可以同时工作。
error-damaged = 任务 { $id } 的日志在第 { $seq } 条处损坏：{ $what }
hint-damaged = 用 `sortie doctor` 检查整个存储。做任何更改之前请先备份。
error-wrong-state = 任务 { $id } 的状态是 { $status }：{ $what }
error-store = 存储操作失败：{ $doing }。
hint-store = 用 `sortie doctor` 查看问题所在。
error-fenced = 任务 { $id } 的租约已失效。

## sortie doctor

doctor-ok = 正常
doctor-warn = 注意
doctor-fail = 失败
doctor-todo = → 建议：{ $todo }
doctor-unknown = 未知
doctor-not-found = 未找到
doctor-home = 数据目录
doctor-home-new = { $path }（将会创建）
doctor-home-read-only = { $path } 不可写
doctor-home-todo = 请取得该目录的写权限，或用 --home 选择其他目录。
doctor-disk = 磁盘
doctor-disk-free = 剩余 { $gigabytes } GB
doctor-disk-todo = 请腾出空间；磁盘写满后存储将拒绝工作。
doctor-store = 存储
doctor-store-ok = 可以读取
doctor-store-todo = 请先备份该目录，再看更新版本的 sortie 能否打开它。
doctor-journal = 日志
doctor-journal-ok = 检查了 { $runs } 份，共 { $entries } 条，没有损坏
doctor-journal-damaged = { $count } 处损坏：{ $first }
doctor-journal-todo = 数据库在 Sortie 之外被修改过。请从备份恢复，或删除这里列出的任务。
doctor-tasks = 任务
doctor-tasks-found = { $active } 个未结束，{ $blocked } 个送达受阻
doctor-tasks-todo = 没有进程在运行它们：用 `sortie resume` 继续。
doctor-lock = 锁
doctor-lock-free = 空闲
doctor-lock-held = 由 { $owner } 持有
doctor-bwrap = bubblewrap 沙箱
doctor-bwrap-todo = 请安装 bubblewrap 0.7 或更新版本：它对命令的隔离最完整。
doctor-landlock = Landlock 沙箱
doctor-landlock-on = 版本 { $version }
doctor-landlock-off = 未启用
doctor-landlock-todo = 只是第二道防线；内核安全模块列表中含 `landlock` 时可用。
doctor-namespaces = 用户命名空间
doctor-namespaces-on = 可用
doctor-namespaces-off = 不可用
doctor-namespaces-todo = 沙箱需要它；请查看 sysctl 中的 user.max_user_namespaces 和 kernel.unprivileged_userns_clone。
doctor-keys = 密钥
doctor-keys-none = 未设置；离线模型不需要密钥
doctor-keys-set = 已设置：{ $names }
doctor-model = 模型
doctor-model-ok = { $name } 可用
doctor-git = git 程序
doctor-git-todo = 请安装 git，以便 Agent 查看项目历史。
doctor-language = 语言

# 模型与配置。
model-found = 使用 { $model }（{ $origin }）；可用 --model 或 `sortie config set model` 另选。
models-server = { $address } 上有服务：{ $models }
model-answered = { $model } 在 { $ms } 毫秒内回答了“{ $words }”（{ $tokens } 个 token）
key-set = 已设置
key-not-needed = 不需要
key-missing = 缺少：{ $variable }
column-key = 键
column-value = 值
column-origin = 来源
column-vendor = 提供方
column-wire = 协议
column-key-state = API 密钥
column-default-model = 默认模型
column-address = 地址
column-session = 会话
column-lanes = 通道
column-labels = 标签
column-command = 命令
column-tasks = 任务数
column-input = 输入
column-cached = 缓存读取
column-output = 输出
column-cost = 费用（估计）
usage-total = 合计
config-unknown-tool = { $key }：规则 "{ $rule }" 不针对任何工具，因此不起作用
config-unknown-tool-near = { $key }：规则 "{ $rule }" 不针对任何工具，因此不起作用；是否指 "{ $nearest }"？
config-warning = 配置：{ $warning }
config-no-key = 没有以 { $key } 开头的已设置的键；`sortie config schema` 列出所有键。
config-set = 已在 { $path } 中设置 { $key }。
config-unset = 已从 { $path } 中移除 { $key }。
config-not-set = { $path } 中没有设置 { $key }。
config-user-file = 用户文件
config-project-file = 项目文件
config-trust-file = 受信任的文件夹
config-none = 无
trust-yes = 受信任
trust-no = 未受信任：只能收紧设置；可用 `sortie trust` 改变
trust-given = 已信任 { $path }：其 sortie.toml 可以设置一切。用 `sortie trust --revoke` 撤销。
trust-revoked = 不再信任 { $path }。
trust-not-there = { $path } 原本就未受信任。
trust-empty = 没有受信任的文件夹。
replay-identical = 已重放 { $runs } 个任务、{ $events } 个事件：日志逐字节相同（sha256 { $digest }）。
replay-forked = 任务 { $id } 从 { $from } 的第 { $at } 个事件继续。
error-config = 配置无法使用：{ $problem }
hint-config = `sortie config schema` 列出所有键；docs/config.md 有说明。
error-no-model = 没有配置模型，没有设置密钥，也没有本地服务应答。
hint-no-model =
    三种最快的办法（`sortie init` 会查找可用的模型并记住）：
      1. 密钥：       export ANTHROPIC_API_KEY=…   （或 OPENAI_API_KEY、GEMINI_API_KEY、DEEPSEEK_API_KEY……）
      2. 本地模型：   ollama pull qwen3 && ollama serve
      3. 其他服务：   sortie run --model openai-compatible/NAME -c providers.openai-compatible.base_url=http://…/v1 "…"
    不用任何模型看看 Sortie 怎么工作：sortie demo
error-unanswered = 模型没有回答：{ $message }
error-no-answer = { $model } 在 { $seconds } 秒内没有回答。
error-schema = { $path } 不是可用的 JSON schema：{ $problem }
error-nothing-to-replay = { $id } 的日志已被移除，无法重放。
error-replay = 任务 { $id } 在第 { $seq } 个事件处结果不同。日志：{ $recorded } 重放：{ $replayed }
doctor-config-todo = 请改正所提到的文件，或用 `sortie config show` 查看生效的内容。

# 一次运行的用量。
field-total = 含子任务
spent-tokens =
    { $cached ->
        [0] 输入 { $input }、输出 { $output } 个 token
       *[other] 输入 { $input }（其中缓存 { $cached }）、输出 { $output } 个 token
    }
spent-cost = 约 ${ $cost }
spent-unknown = 费用未知
progress-budget = 预算已用 { $percent } %
source-user = 用户文件
source-project = 项目文件
error-web = [web] 下的配置无法使用：{ $why }
hint-web = 用 `sortie config show web` 查看它在哪里设置

## 任务向人提出的请求

column-kind = 种类
column-task = 任务
column-what = 内容
column-expires = 剩余时间
column-reply = 答复
column-hook = 钩子
column-events = 事件
column-target = 执行
column-pending = 等待中
column-dead = 已放弃
column-error = 错误
column-number = 编号
column-rule = 规则
column-by = 操作者
column-at = 时间
column-layer = 层
column-source = 来源
column-says = 裁决
column-skill = 技能
column-offered = 提供给
field-kind = 种类
field-task-id = 任务
field-asked = 提出时间
field-time-left = 剩余时间
field-reply = 答复
field-tool = 工具
field-layer = 层
field-rule = 规则
field-why = 原因
field-arguments = 参数：
field-preview = 将会发生：
field-lasting = 可用于 --always 的规则，最窄的在前：
field-question = 问题：
field-options = 选项：
field-default = 无人回答时：
field-asks = 等待答复（sortie approvals）：
reply-open = 待答复
reply-approved = { $by } 已批准
reply-approved-always = { $by } 已批准，并始终允许：{ $rule }
reply-refused = { $by } 已拒绝
reply-refused-because = { $by } 已拒绝：{ $words }
reply-answered = 已回答：{ $text }
reply-expired = 已过期，无人答复
approvals-none = 没有等待答复的请求。
approvals-unknown = 没有请求 { $id }；用 `sortie approvals list --all` 查看。
approvals-how = 答复方法：sortie approvals approve { $id } [--always]，或 sortie approvals deny { $id } --because "…"
approvals-how-answer = 答复方法：sortie approvals answer { $id } "…"
approvals-is-question = { $id } 是一个问题：sortie approvals answer { $id } "…"
approvals-not-a-question = { $id } 询问某个调用可否执行：sortie approvals approve { $id }，或 deny { $id }
approvals-empty-answer = 回答不能为空：这个问题没有默认答案。
approvals-no-rule = 这个调用没有建议的规则。请只批准一次，或写明规则：--always='exec(cargo test)'
approvals-bad-rule = { $rule } 不是规则：{ $problem }
approvals-noted = { $id }：{ $words }。没有进程在运行该任务；用 `sortie resume` 继续。
approvals-left = { $id }：{ $words }。运行该任务的进程会读取它（{ $owner }）。
approvals-danger = 危险 { $what }
field-exact = { $tool }，原文：
approvals-run-ended = 太迟了：任务已不再等待它。
grants-none = 会话 { $session } 没有整体允许的规则。
grants-revoked =
    { $count ->
        [0] 会话 { $session } 没有这样的规则。
       *[other] 已撤销会话 { $session } 的 { $count } 条规则。
    }

## 审计与策略

audit-empty = 审计日志中没有这样的记录。
audit-checked = 已检查 { $entries } 条记录；最后的哈希是 { $head }
audit-damaged = 审计日志被修改过：{ $count } 处问题。
hint-audit = 数据库在 Sortie 之外被修改过。请先备份，并与您保存的哈希比较。
policy-bad-args = --args 需要一个 JSON 对象，例如 '{"{"}"command": "ls"{"}"}'。
policy-no-journal = 任务 { $id } 的日志已被清除，其准入时的策略也随之清除。
policy-ruling = { $decision }：Agent { $agent } 调用 { $tool }
word-yes = 是
word-no = 否
field-mode = 模式
field-policy = 策略哈希
field-read-only = 只读
field-taken-away-by = 由谁排除
field-dangerous = 允许危险命令
field-sandbox = 沙箱
field-neutralised = 已消除隐患
field-network = 命令可用网络
field-isolation = 隔离
field-branch = 分支
field-changes = 更改
field-budget = 预算
field-budget-time = 总时限
sandbox-applied = { $mode }；上一条命令在 { $backend } 中运行
recovered-workspace = { $workspace }：进程异常终止后遗留：{ $thing }
recover-failed = 无法检查异常终止的进程遗留的工作区：{ $problem }
changes-line =
    { $files } 个文件，+{ $insertions } -{ $deletions }{ $fate ->
        [applied] ；已应用
        [discarded] ；已丢弃
       *[open] {""}
    }
budget-balance = { $kind }：已用 { $spent }，上限 { $limit }，预留 { $reserved }，剩余 { $left }

## 工作树

changes-no-worktree = 任务 { $id } 没有自己的工作树：它直接在工作区中工作。
changes-nothing = 任务 { $id } 没有更改其工作树。
changes-not-yet = 任务 { $id } 仍在其工作树中工作；请等待，或先取消它。
worktree-applied = 检出目录中有 { $count } 个文件被更改。
worktree-discarded = 已丢弃任务 { $id } 的更改。

## Agent 文件、技能与工具服务器

agents-no-files = 这里和您的主目录中都没有 Agent 文件。
agent-narrowed = 该文件夹未受信任：文件只能收紧权限（可用 `sortie trust` 改变）
field-file = 文件
field-trust = 信任
field-folder = 文件夹
field-offered = 提供给
field-wanted-tools = 希望使用的工具
field-unknown-keys = 未知的键
source-extra = 指定的文件夹
skills-none = 这里和您的主目录中都没有技能。
skills-unknown = 没有名为 '{ $name }' 的技能。已知：{ $known }
offered-both = 模型和人
offered-models = 模型
offered-people = 人
offered-none = 无人
mcp-no-tool = 服务器没有工具 { $tool }；用 `sortie mcp list` 查看。
mcp-tool-approved = { $tool }：已批准（{ $fingerprint }）
mcp-tool-changed = { $tool }：已变更，在 `sortie mcp approve { $server }` 之前不提供给模型（{ $fingerprint }）
mcp-hidden = { $count } 个隐藏字符，此处已写出，提供给模型时会删除
hooks-none = 没有配置钩子：见 docs/config.md 的 hooks，或受信任的代理文件的 `hooks`。
hooks-no-dead = 没有被放弃的信件。
hooks-no-letter = 没有编号为 { $id } 的被放弃信件；`sortie hooks dead` 列出它们。
hooks-unknown = 没有钩子 { $name }。现有：{ $known }
hooks-retried = 将重新投递 { $count } 封信件。
hooks-dismissed = 已丢弃 { $count } 封信件。
hooks-tested = { $name }：{ $answer ->
    [accepted] 请求已被接受
    [passed] 命令没有异议
    [asks] 命令要求审批
    [blocks] 命令拒绝
   *[failed] 失败
} { $words }
mcp-none = 没有配置工具服务器：见 docs/config.md 的 mcp_servers，或受信任文件夹的 .mcp.json。
mcp-ready = 就绪，{ $count } 个工具
mcp-disabled = 已关闭
mcp-unavailable = 不可用：{ $why }
mcp-changed = 批准之后已更改，不提供：{ $tool }
mcp-left-out = 未采用：{ $tool }：{ $why }
mcp-unknown = 没有名为 '{ $name }' 的服务器。已知：{ $known }
mcp-nothing-changed = 批准之后没有任何更改。
mcp-approved = 已按现状批准：{ $tool }
doctor-audit = 审计
doctor-audit-ok = { $entries } 条记录，均未被改动
doctor-audit-damaged = { $count } 处问题：{ $first }
doctor-approvals = 审批
doctor-approvals-none = 没有等待您的请求
doctor-approvals-open = { $count } 个等待答复
doctor-approvals-todo = 用 `sortie approvals` 查看。
doctor-mcp = 工具服务器
doctor-mcp-none = 没有配置
doctor-mcp-set = 已配置：{ $names }（`sortie mcp list` 会启动它们）
doctor-sandbox = 沙箱
doctor-sandbox-ok = 命令在 { $backend } 中运行
doctor-sandbox-off = 已由 sandbox.mode 关闭：Agent 的命令可以做您能做的一切
doctor-sandbox-off-todo = 请将 sandbox.mode 设为 required。
doctor-sandbox-none = 本机没有可用的沙箱后端，因此 Agent 的命令都不执行
doctor-sandbox-todo = 请安装 bubblewrap 0.7 或更新版本（sudo apt install bubblewrap），或允许用户命名空间。
doctor-bwrap-none = 未找到，或在此无法工作
doctor-cgroups = 控制组
doctor-cgroups-on = 限制对一条命令的所有进程共同生效
doctor-cgroups-off = 无法创建；限制对每个进程分别生效

## 服务器及其客户端

server-name = { $address } 的服务器
server-still-starting = 服务器正在启动（pid { $pid }），尚未响应。请稍后再试；`sortie status` 会显示它是否就绪。
server-refuses-flag = { $flag } 只适用于独占存储的进程，而存储现由 { $address } 的服务器持有。请去掉它并在服务器的配置中设置，或先用 `sortie stop` 停止服务器。
server-gone = 服务器已停止。它运行的任务已保留：启动 `sortie serve` 或 `sortie resume` 后继续。
left-in-server = 已断开。任务在服务器中继续运行：用 `sortie tasks show { $id }` 查看。
left-all-in-server = 已断开。所等待的任务在服务器中继续运行：用 `sortie tasks watch` 查看。
abandoned-in-server = 已立即断开。服务器会继续取消该任务。
asked-elsewhere = [{ $agent }] { $label } 正在等待决定：`sortie approvals show { $id }`
reply-not-sent = 您的回复没有送达：{ $problem }。
spawn-in-server = 子 Agent [{ $label }] 已排队（ID: { $id }）。由服务器运行。
resume-waits = 未完成的任务由服务器运行；正在等待 { $count } 个任务。
pause-done = 任务 { $id } 在当前步骤后暂停。用 `sortie tasks resume { $id }` 继续。
unpause-done = 任务 { $id } 可以继续。
retry-done = 任务 [{ $label }] 已重新排队（ID: { $id }）。
control-left = 已为任务 { $id } 记下。{ $owner } 尚未执行；它会尽快执行，否则由下一个打开存储的进程执行。
run-paused = 已从另一个终端暂停。用 `sortie tasks resume { $id }` 继续，或按 Ctrl-C 停止。
cancel-session-done = 会话 { $session }：已取消 { $count } 个活动任务。
cancel-session-left = 会话 { $session }：已记下要取消 { $count } 个活动任务。{ $owner } 尚未全部执行；它会尽快执行，否则由下一个打开存储的进程执行。
steer-done = 任务 { $id } 会在下一步之前读到。
telemetry-off = 不发送追踪数据：{ $problem }
serve-listening = 正在 { $address } 提供 { $home } 的服务。按 Ctrl-C 停止。
serve-link = 在浏览器中打开（仅一次，5 分钟内有效）：{ $url }
serve-open = 用 `sortie open` 获取浏览器链接。
serve-not-loopback = 其他机器可以访问此地址：请在前面使用 TLS，并用 --host 或 server.hosts 写明主机名。每个请求都需要密钥。
serve-resumed = 之前的进程留下的 { $count } 个未完成任务继续运行。
serve-stopping = 正在停止：运行中的任务放回队列。再按一次 Ctrl-C 立即退出。
serve-stopped = 已停止。运行中的任务已放回队列：用 `sortie serve` 或 `sortie resume` 继续。
worker-started = 工作进程 { $id } 正在执行共享存储中的任务。按 Ctrl-C 停止。
worker-stopped = 已停止。其任务已放回队列。
worker-too-many-labels = 一个工作进程最多有 { $max } 个标签。
no-workers = 没有工作进程。文件存储只有一个进程；共享存储会列出正在运行的工作进程（`sortie worker`）。
no-tenants = 没有租户有任务或配额。配置中的 `[tenants.NAME]` 设置配额；`sortie keys create --tenant NAME` 创建密钥。
column-day = 日期
column-weight = 权重
column-running = 运行中
column-queued = 排队中
column-quota = 配额
column-used = 已用
column-limit = 上限
column-resets = 重置时间
serve-limit-needs-workers = --limit 0 需要工作进程，而工作进程需要数据库：请设置 store = "postgres://…"。
serve-no-page = 此程序构建时不含网页；API 可用。
serve-no-model = 未配置模型，也没有找到模型：任务必须自行指定。
serve-bad-listen = { $text } 不是可监听的地址；请写成 127.0.0.1:7878 或 [::1]:7878 这样的形式。
serve-bad-tenant = 租户名无效 server.tenants.{ $name }：{ $problem }
hint-model-key = 设置该提供方的密钥，然后验证：sortie models check { $model }
hint-model-name = `sortie models list` 列出可用的模型；验证某个名称：sortie models check { $model }
hint-model-silent = 验证提供方：sortie models check { $model }；然后重新运行任务：sortie tasks retry { $id }
error-no-repository = --isolation worktree 需要 git 仓库，而 { $path } 不在仓库中。
hint-no-repository = 先创建仓库：git init && git add --all && git commit -m start；或去掉 --isolation，直接在文件夹中工作。
hint-server-runs = 各命令会自动使用它；`sortie open` 打印浏览器链接，`sortie stop` 停止服务器。
serve-already = { $address } 已有一个服务器（pid { $pid }）。
serve-already-starting = 已有一个服务器正在启动（pid { $pid }）。
open-browser-failed = 无法启动浏览器（{ $problem }）；请自行打开链接。
no-server = 此存储没有运行中的服务器。用 `sortie serve` 启动。
status-running = 服务器在 { $address }，始于 { $since }（pid { $pid }，版本 { $version }）。
status-tasks = { $running } 个运行中，{ $pending } 个等待中，{ $requests } 个待人决定。
status-broken = { $address } 上的服务器（pid { $pid }）有响应，但无法工作：{ $problem }
status-silent = 服务器应在 { $address }（pid { $pid }），但没有响应：{ $problem }
status-starting = 服务器正在启动（pid { $pid }）。
status-none = 此存储没有运行中的服务器。
stop-asked = 已请求服务器（pid { $pid }）停止。
stop-done = 服务器（pid { $pid }）已停止。
stop-slow = 已请求服务器（pid { $pid }）停止，{ $seconds } 秒后它仍在运行。
stop-elsewhere = 服务器报告的进程号是 { $pid }，而本机上该进程号属于其他进程或不存在：它运行在容器中或另一台机器上。请在那里停止它。
keys-none = 没有密钥。首次运行 `sortie serve` 时会创建一个。
keys-created = 密钥 { $id }（{ $name }，{ $role }）已创建。令牌只在此显示一次：
keys-rotated = 密钥 { $id }（{ $name }）有了新令牌，只在此显示一次：
keys-revoked = 密钥 { $id }（{ $name }）已失效。
keys-bad-time = { $text } 不是时长；请写成 90s、30m、12h 或 30d 这样的形式。
column-name = 名称
column-role = 角色
column-tenant = 租户
column-ends = 到期
error-token = 无法读取 { $path } 中的令牌。
hint-token = `sortie serve` 启动时写入它；请用同一用户运行服务器。用 `sortie keys list` 查看密钥。
error-server = 服务器出错：{ $problem }。
hint-server = `sortie status` 会显示服务器的状态。如果它无响应，可结束其进程；不会丢失任何内容。
error-stranger = 在 { $address } 监听的不是这个服务器；没有向它发送令牌。
hint-stranger = `sortie stop` 会结束持有此存储的服务器。然后运行 `sortie serve`；如果该端口被别的程序占用，请换一个端口。
error-listen = 服务器无法在 { $address } 监听。
hint-listen = 如果端口被其他程序占用，请用 --listen 127.0.0.1:端口 或 server.listen 另选一个；0 表示任意空闲端口。
error-serve = 服务器因错误终止。
doctor-server = 服务器
doctor-server-none = 无；命令直接打开存储
doctor-server-running = 位于 { $address }，pid { $pid }
doctor-server-starting = 正在启动，pid { $pid }
doctor-server-stale = { $path } 由已终止的服务器（pid { $pid }）遗留
doctor-server-stale-todo = 无需处理：下次 `sortie serve` 会重新写入。
doctor-files = 私有文件
doctor-files-ok = 只有您可以读取和修改
danger-foreign-owner = 属于另一个用户（uid { $owner }）
danger-writable = 可被其他用户写入（权限 { $mode }）
danger-link = 是符号链接
danger-folder = 是文件夹
danger-no-folder = 不是文件夹
danger-special = 不是普通文件
error-unsafe = { $path } { $danger }，其他用户可能已修改它。
error-leaked = 其他用户可以读取 { $path }，其中的密钥已不再保密。
private-wide = { $path } 的权限过宽，但其他用户无法到达它。
private-repaired = { $path } 曾对其他用户开放；权限已改为 0600。
private-token-repaired = { $path } 曾对其他用户开放；权限已改为 0600。如果其他用户可能读取过它，请更换令牌：先执行 sortie keys list，再执行 sortie keys rotate ID
private-repair-todo = 下一条命令会收紧它：chmod 600 "{ $path }"
private-owner-todo = 请确认其内容属于您，然后执行：sudo chown "$(id -un)" "{ $path }"（或用 SORTIE_HOME 指定其他目录）
private-writable-todo = 请确认其内容属于您，然后执行：chmod go-w "{ $path }"（如果它不属于您，请加 sudo；或用 SORTIE_HOME 指定其他目录）
private-kind-todo = 请将它移走：mv "{ $path }" "{ $path }.old"
private-rotate-todo = 更换令牌：sortie keys rotate { $id }
private-restart-todo = 停止服务器并重新启动：它会生成新的密钥。
server-file-damaged = { $path } 不是服务器写入的；已忽略并将替换。
doctor-port = 端口
doctor-port-free = { $address } 空闲
doctor-port-own = { $address } 由服务器使用
doctor-port-taken = 无法在 { $address } 监听：{ $problem }
doctor-port-todo = 请用 server.listen 或 `sortie serve --listen` 另选一个。
doctor-open-files = 打开的文件
doctor-open-files-found = 服务器最多可同时打开 { $most } 个文件和连接
doctor-open-files-todo = 请将硬限制（ulimit -Hn，或服务单元中的 LimitNOFILE）提高到 65536：少量陌生连接就可能占用存储所需的描述符。

## 存储

store-checked = 存储完好：{ $tasks } 个任务，{ $entries } 条日志，{ $audit } 条审计记录；模式版本 { $version }
store-summary = { $tasks } 个任务，{ $entries } 条日志，{ $audit } 条审计记录；模式版本 { $version }
store-damaged = 存储已损坏。
hint-store-damaged = 保留一份副本，然后从备份恢复：docs/operations.md
store-current = 存储已是最新（模式版本 { $version }）。
store-migrated = 存储的模式版本现为 { $version }。
store-copied = 已复制并校验：{ $tasks } 个任务，{ $entries } 条日志，{ $audit } 条审计记录
store-backed-up = 已备份并校验：{ $tasks } 个任务，{ $entries } 条日志，{ $audit } 条审计记录
store-use-file = 要使用该文件，请从配置中删除 `store`。
store-copy-reading = 正在读取 { $table }
store-copy-rows = 正在复制 { $table }：{ $rows } 行
store-copy-checking = 正在校验副本
## 对话

chat-greeting = Enter 发送，Alt-Enter 换行，Esc 打断，/help 列出命令。
chat-server-model = 服务器的模型
chat-plain = 每行是一条消息。/quit 或 Ctrl-D 退出。
chat-nothing-to-continue = 此目录下没有之前的对话，已开始新的对话。
chat-return = 回到此对话：sortie --resume { $id }
chat-left-queued = { $count } 个任务尚未结束，已保留在队列中；用 `sortie resume` 继续。
chat-left-in-server = { $count } 个任务在服务器中继续运行。
chat-leave-hint = 再按一次 Ctrl-C 退出。
chat-leave-question = 有任务正在运行。[k] 保留，以后继续  [c] 取消  [Esc] 留下
chat-working = 运行中 · { $elapsed } · Esc 打断，Ctrl-C 停止
chat-paused = 已打断。输入要修改的内容，或按 Enter 继续；Ctrl-C 停止本轮。
chat-stopping = 正在停止 …
chat-stopped = 已停止。
chat-queued = 排队中
chat-more-tasks = … 还有 { $count } 个任务
chat-more-todos = … 还有 { $count } 项
chat-announced = [{ $agent }] { $label } 的报告
chat-asks = { $agent } [{ $label }] 提问：
chat-answer-mark = 回答>{ " " }
chat-keys-approval = 允许吗？[y] 是  [n] 否  [a] 本会话总是允许  [d] 否，并说明原因
chat-keys-once = 允许吗？[y] 是  [n] 否  [d] 否，并说明原因
chat-keys-danger = 危险。输入 yes 并按 Enter 才允许  [n] 否  [d] 否，并说明原因
chat-keys-reason = 为什么不？按 Enter 发送原因。
chat-keys-question = 输入回答或选项编号。
chat-keys-more = （还有 { $count } 个在等待）
chat-unknown = 没有命令 /{ $name }。/help 列出所有命令。
chat-unknown-near = 没有命令 /{ $name }。您是想输入 { $near } 吗？
chat-usage-steer = 写法：/steer ID 内容。
chat-no-turn = 此对话还没有任何一轮。
chat-no-request = 没有这样的待审批请求。
chat-not-approval = 这是一个提问：请直接输入回答。
chat-model = 当前模型是 { $model }。用 /model 厂商/模型 选择其他模型。
chat-model-set = 下一轮使用 { $model }。
chat-mode = 当前模式是 { $mode }；可选：{ $known }。
chat-mode-set = 下一轮使用模式 { $mode }。
chat-bad-mode = 没有模式 { $word }；可选：{ $known }。
chat-budget = 每一轮及其任务最多花费 ${ $usd }。
chat-budget-none = 未设置预算。用 /budget 0.50 设置。
chat-bad-budget = { $word } 不是金额；请写美元，例如 0.50。
chat-fork-running = 这一轮仍在运行；请等它结束，或用 Ctrl-C 停止后再分支。
chat-forked = 现在是 { $now }，历史来自 { $before }，后者保持不变。
chat-new = 新的对话开始：{ $now }。
chat-resume-hint = /resume ID 打开其中一个。
chat-applied = 已应用 { $count } 个文件的改动：
chat-help =
    /tasks            此对话的任务            /task [ID]    其中一个任务
    /result [ID]      任务的结果              /diff [ID]    任务的改动
    /report [ID]      委派情况与费用          /apply [ID]   应用改动
    /cancel [ID]      取消任务                /resume [ID]  打开另一个对话
    /steer ID 内容    补充任务的指示          /usage        token 与费用
    /approve, /deny   处理待审批请求          /agents       列出代理
    /model [名称]     查看或设置模型          /mode [模式]  何时询问您
    /budget [美元]    限制每轮费用            /clear        清屏
    /fork [ID]        从某一轮分支            /new          新的对话
    /quit             退出
    按键：Enter 发送，Alt-Enter 或 \ Enter 换行，Tab 补全命令、@文件和 ID，
    上下键翻历史，Esc 打断本轮，Ctrl-C 停止本轮，连按两次退出，Ctrl-D 退出。
notify-needed = Sortie 需要您：{ $label }
notify-done = Sortie 已完成：{ $label }
next-changes = 改动在 worktree 中，尚未进入您的检出目录：sortie tasks diff { $id }，然后 sortie tasks apply { $id }
error-no-session = 没有对话 { $id }；`sortie --continue` 打开此目录的上一个对话
session-busy = 会话 { $session } 中有一轮尚未结束；用 `sortie tasks watch` 等待，或用 `sortie tasks steer { $id } 内容` 补充

## sortie init

init-keys = 环境中的 API 密钥：{ $names }
init-servers = 本机的模型服务：{ $names }
init-none = 无
init-origin-key = { $vendor } 的密钥
init-which-model = 用哪个模型？[1-{ $count }，回车为 1]{" "}
init-which-number = 请输入 1 到 { $count } 之间的数字。
init-model-set = 模型：{ $model }（{ $origin }），已写入 { $path }。
init-model-kept = 模型：{ $model }（已配置）；用 `sortie init --model` 或 `sortie config set model` 修改。
init-no-model = 模型：目前没有可用的模型。
init-agent = 创建示例 Agent { $path }？
init-agent-written = 已写入 { $path }：一个审查改动的 Agent。可以修改它，或在旁边添加其他 Agent。
init-trust = 信任 { $path }？它的 sortie.toml、Agent 和 MCP 服务器将得到它们要求的一切。
init-next = 就绪。`sortie` 打开对话；`sortie run 介绍这个项目` 执行一个任务。
init-next-agent = 就绪。`sortie` 打开对话；`sortie spawn --agent reviewer 看看最近的改动` 运行新的 Agent。
init-next-demo = 没有模型时，`sortie demo` 演示 Sortie 如何工作。有了模型后再运行一次 `sortie init`。

## sortie top

top-no-terminal = `sortie top` 需要终端。`sortie tasks watch` 逐行打印变化；`sortie tasks list` 打印一次。
top-no-process = 没有进程在执行任务（`sortie resume` 继续）
top-header = { $running } 个运行中，{ $pending } 个排队
top-people = { $count } 个任务等你处理
top-detail = 详情
top-timeline = 时间线
top-log = 日志
top-keys = ↑↓ 选择 · Tab 视图 · a d 审批 · s 补充指示 · p 暂停 · c 取消 · ? 帮助
top-decide = a 批准此调用 · d 拒绝并说明原因 · 回车回答问题
top-now = 正在：{ $call }
top-no-request = 这个任务没有待处理的请求。请选择一个等你处理的任务。
top-has-ended = 这个任务已经结束。
top-nothing-done = 未做任何更改。
top-answer = 回答：
top-deny = 拒绝并说明原因（n 原因）：
top-danger = 危险操作。输入 yes 批准：
top-cancel = 取消 { $id } 及其子代理？[y/N]
top-steer = 发给 { $id } 的消息：
top-cancelled = 已取消。
top-steered = 已发送；任务将在下一步之前读取。
top-paused = 已暂停。
top-unpaused = 已恢复。
top-approved = 已批准。
top-denied = 已拒绝。
top-answered = 已回答。
top-too-late = 太迟了：已在别处答复，或任务已结束。
top-help =

    ↑ ↓, k j      选择任务；Home 和 End、g G：第一个和最后一个
    Tab, 1 2 3    详情、时间线、日志；PgUp PgDn：滚动

    a, 回车       批准所选任务的调用，或回答它的问题
    d             拒绝调用，并给代理说明
    s             补充指示：任务在下一步之前读取
    p             暂停任务及其子代理，或恢复
    c             取消任务及其子代理；会先确认

    q, Esc        退出；不影响任务

## 委派报告

report-title = 委派报告：{ $label }
report-summary = { $id }：{ $status }，{ $time }，{ $count } 个任务，{ $tokens } 个 token，费用 { $cost }
report-so-far = 任务尚未结束；以下均为截至目前的数字。
report-estimate = 委派是否划算？（估算）
report-no-children = 没有委派：该任务没有子代理。
report-paid-off = 委派是划算的。
report-mixed = 有得有失：时间与提示文本之中，一项节省，另一项增加。
report-even = 大致持平：与单个代理完成全部工作相差不到十分之一。
report-cost-more = 委派的代价高于单个代理完成全部工作。
report-unknown = 无法估算：有任务的日志已被删除。
report-estimate-time = 时间：使用子代理为 { $delegated }（不含等待人的时间）；若由一个代理依次进行同样的模型调用和工具调用，约为 { $alone }。
report-estimate-text = 提示文本：所有任务共发送 { $delegated }；若全部工作留在同一上下文中，约为 { $alone }（{ $tokens }）。
report-tokens-less = 使用子代理约少 { $count } 个 token
report-tokens-more = 使用子代理约多 { $count } 个 token
report-estimate-basis = 依据：各任务的日志，每个 token 按 4 字节计。未考虑提示缓存，也未考虑工作过程本身可能不同。
report-tasks = 任务
report-column-task = 任务
report-column-critical = 关键路径
report-column-waits = 等待
report-column-tokens = Token 数
report-column-cost = 费用
report-column-context = 上下文
report-column-announced = 报告
report-more-tasks = 另有 { $count } 个任务；--json 列出全部已知任务
report-critical = 关键路径：结果在等待什么
report-column-waited = 等待对象
report-column-share = 占比
report-more-steps = 另有 { $count } 个较短的步骤未显示
report-duplicates = 兄弟任务的重复工作
report-no-duplicates = 无：没有文件、目录、网页或搜索被同一父任务的两个子代理使用。
report-column-kind = 类型
report-column-what = 内容
report-column-calls = 调用
report-column-repeated = 重复
report-column-by = 任务
report-kind-file = 文件
report-kind-folder = 目录
report-kind-search = 搜索
report-kind-page = 网页
report-more-duplicates = 另有 { $count } 项较小的重复未显示
report-context = 父任务的上下文
report-context-saved = 子代理在各自的上下文中读写了 { $children }；指示和报告在父任务的上下文中占 { $parents }：节省了 { $saved }。
report-context-lost = 子代理在各自的上下文中读写了 { $children }；指示和报告在父任务的上下文中占 { $parents }：比工作本身还多 { $lost }。
activity-slot = 空位
activity-model = 模型
activity-rate-limit = 速率限制
activity-tool = 工具
activity-approval = 审批
activity-question = 回答
activity-children = 子任务
activity-paused = 已暂停
activity-other = 其他
