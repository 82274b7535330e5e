// All words of the page, in both languages; numbers and times as each writes them.

export const WORDS = {
  en: {
    other: '中文', live: 'Live', lost: 'The gateway does not answer; trying again',
    key: 'Who is there?', key_label: 'Key', key_open: 'Open', key_forget: 'Forget the key',
    key_why: 'This gateway asks for a key with the scope admin. It stays in this tab and goes with it.',
    release: 'Release', evidence: 'Evidence', plots: 'The last minutes', arms: 'Arms',
    examples: 'Where the arms part', history: 'History', cancel: 'Cancel',
    phase_idle: 'Not started', phase_shadow: 'Shadow', phase_canary: 'Canary', phase_full: 'Full',
    phase_rolled_back: 'Rolled back', phase_at: '{phase}, {weight} of the traffic', paused: 'paused',
    baseline: 'Baseline', candidate: 'Candidate',
    needed: 'Before {weight} of the traffic', dwell: '{now} of {least} in this phase',
    compared: '{now} of {least} requests compared', served: '{now} of {least} served by the candidate',
    shown_good: 'shown to be good: {what}',
    evidence_why: 'Capital of bets (e-values), on a logarithmic scale. Worse, full: rolled back. Good, full: shown.',
    divergence: 'Divergence', disagreement: 'Disagreement', first_token: 'First token', per_token: 'Per token',
    of_divergence: 'Divergence', of_disagreement: 'Disagreement', of_degeneration: 'Degenerate answers',
    of_failures: 'Failures', of_first_token: 'Late first tokens', of_per_token: 'Slow tokens',
    measured: '{value} over {n}', measured_both: '{value} over {n}; baseline {other} over {m}',
    not_measured: 'not measured yet', worse: 'Worse: more than {limit}', good: 'Good: less than {limit}',
    worse_rate: 'Worse: more than baseline + {limit}', good_rate: 'Good: less than baseline + {limit}',
    e_value: '{now} of {threshold}', limit: 'limit',
    mean: 'mean', median: 'median', high: '90th percentile', minutes: '{n} min', now: 'now',
    nothing: 'nothing yet', latest: '{line} {value}',
    replicas: 'Replicas up', inflight: 'In flight', queue: 'Waiting', queues: '{interactive} interactive, {batch} batch',
    kv: 'KV memory in use', of: '{now} of {most}',
    breaker: 'Breaker', closed: 'closed', open: 'open: the baseline answers', 'half-open': 'half-open: trying again',
    drift: 'Patrol', drift_none: 'no level known yet', drift_ratio: '{what} {ratio} times the level at promotion',
    drift_raised: 'drift', examples_off: 'Prompts are not kept (audit.prompts is off), so there is nothing to show.',
    examples_none: 'The arms have not parted on a compared request yet.',
    examples_some: 'In memory only; the newest first.',
    example: '{ago} ago, parted after {n} tokens', prompt: 'Prompt', forget: 'Delete',
    start: 'Start', promote: 'Promote', pause: 'Pause', resume: 'Resume', rollback: 'Roll back',
    ask_start: 'The candidate gets copies of requests; no user sees its answers. Evidence starts at zero.',
    ask_promote: 'The candidate answers {weight} of the traffic from the next request on.',
    ask_promote_missing: 'The evidence for this step is not complete.',
    ask_pause: 'Nothing is promoted until you resume. Evidence may still roll back.',
    ask_resume: 'Goes on where it was paused.',
    ask_rollback: 'The next request, and all after it, go to the baseline. Running answers finish. To come back the release starts anew.',
  },
  zh: {
    other: 'English', live: '实时', lost: '网关没有响应,正在重试',
    key: '请验证身份', key_label: '密钥', key_open: '打开', key_forget: '清除密钥',
    key_why: '此网关需要带 admin 权限的密钥。密钥只保存在当前标签页中,关闭即清除。',
    release: '发布', evidence: '证据', plots: '最近几分钟', arms: '两个版本',
    examples: '回答出现分歧之处', history: '历史', cancel: '取消',
    phase_idle: '未开始', phase_shadow: '影子', phase_canary: '金丝雀', phase_full: '全量',
    phase_rolled_back: '已回滚', phase_at: '{phase},占流量 {weight}', paused: '已暂停',
    baseline: '基线', candidate: '候选',
    needed: '升至 {weight} 流量之前', dwell: '本阶段已 {now},至少 {least}',
    compared: '已比较 {now} 个请求,至少 {least}', served: '候选已回答 {now} 个请求,至少 {least}',
    shown_good: '已证明合格:{what}',
    evidence_why: '赌局资本(e 值),对数刻度。“更差”满格:回滚;“合格”满格:已证明。',
    divergence: '散度', disagreement: '分歧率', first_token: '首 token 延迟', per_token: '每 token 延迟',
    of_divergence: '散度', of_disagreement: '分歧率', of_degeneration: '退化的回答',
    of_failures: '失败', of_first_token: '首 token 偏晚', of_per_token: 'token 偏慢',
    measured: '{value}(n={n})', measured_both: '{value}(n={n});基线 {other}(n={m})',
    not_measured: '尚未测量', worse: '更差:大于 {limit}', good: '合格:小于 {limit}',
    worse_rate: '更差:大于基线 + {limit}', good_rate: '合格:小于基线 + {limit}',
    e_value: '{now} / {threshold}', limit: '上限',
    mean: '均值', median: '中位数', high: '第 90 百分位', minutes: '{n} 分钟', now: '现在',
    nothing: '暂无数据', latest: '{line} {value}',
    replicas: '可用副本', inflight: '处理中', queue: '排队', queues: '交互 {interactive},批量 {batch}',
    kv: 'KV 显存占用', of: '{now} / {most}',
    breaker: '熔断器', closed: '闭合', open: '断开:由基线回答', 'half-open': '半开:正在试探',
    drift: '巡检', drift_none: '尚无水平', drift_ratio: '{what}为发布时的 {ratio} 倍',
    drift_raised: '漂移', examples_off: '未保存提示词(audit.prompts 已关闭),因此没有可显示的内容。',
    examples_none: '在已比较的请求上,两个版本尚未出现分歧。',
    examples_some: '仅保存在内存中,最新的在前。',
    example: '{ago}前,第 {n} 个 token 之后分歧', prompt: '提示词', forget: '删除',
    start: '开始', promote: '提升', pause: '暂停', resume: '继续', rollback: '回滚',
    ask_start: '候选将收到请求的副本,用户看不到它的回答。证据从零开始。',
    ask_promote: '从下一个请求起,候选将回答 {weight} 的流量。',
    ask_promote_missing: '这一步所需的证据尚不完整。',
    ask_pause: '在继续之前不会提升。证据仍可触发回滚。',
    ask_resume: '从暂停处继续。',
    ask_rollback: '从下一个请求起全部由基线回答,正在进行的回答会完成。之后需重新开始发布。',
  },
};

const CHOICE = 'kvant-language';
const wanted = localStorage.getItem(CHOICE) ?? navigator.language;
let language = wanted.startsWith('zh') ? 'zh' : 'en';

/** The text of this name, with its {places} filled. */
export const say = (name, values = {}) =>
  WORDS[language][name].replace(/\{(\w+)\}/g, (_, place) => values[place]);

export function switchLanguage() {
  language = language === 'zh' ? 'en' : 'zh';
  localStorage.setItem(CHOICE, language);
  dress();
}

/** Writes the words that stand in the page itself. */
export function dress() {
  document.documentElement.lang = language === 'zh' ? 'zh-CN' : 'en';
  for (const node of document.querySelectorAll('[data-word]')) node.textContent = say(node.dataset.word);
  document.getElementById('language').textContent = say('other');
  document.getElementById('language').lang = language === 'zh' ? 'en' : 'zh-CN';
}

const format = (options) => (value) => new Intl.NumberFormat(language, options).format(value);
export const percent = format({ style: 'percent', maximumSignificantDigits: 3 });
export const count = format({ maximumFractionDigits: 0 });
export const short = format({ maximumSignificantDigits: 3, notation: 'compact' });

/** Seconds as people say them: 12 ms, 3.4 s, 5 min. */
export function duration(seconds) {
  const [unit, size] = seconds >= 120 ? ['minute', 60] : seconds >= 1 || !seconds ? ['second', 1] : ['millisecond', 0.001];
  return format({ style: 'unit', unit, unitDisplay: 'short', maximumSignificantDigits: 3 })(seconds / size);
}

/** Unix seconds as a date and time of day. */
export const moment = (seconds) =>
  new Intl.DateTimeFormat(language, { dateStyle: 'medium', timeStyle: 'medium' }).format(seconds * 1000);
