/*
 * What is said of a frame, in words, numbers and colours. Names come from programs and may hold anything:
 * they go into the page as text alone.
 */

const CHANCE_ERRORS = 2; /* changes of fewer standard errors say nothing */
/* Of a kind's colour, which page.css has: what is added to its lightness and to its hue. */
const SHADES = [[0, 0], [0.025, 12], [-0.03, -10], [-0.045, -19], [0.045, 22], [-0.015, -27]];
const UNSHADED = ["thread", "mark"];
const LEVELS = [0.1, 0.3, 0.6]; /* of a change, as part of the larger share */

const KINDS = [
    ["thread", "thread or program"],
    ["function", "function"],
    ["kernel", "kernel"],
    ["inlined", "inlined"],
    ["nameless", "without a name"],
    ["mark", "not known"],
];

function element(tag, properties, ...children) {
    const made = Object.assign(document.createElement(tag), properties);
    made.append(...children);
    return made;
}

/* ---- numbers ---- */

const whole = new Intl.NumberFormat("en", {maximumFractionDigits: 0});

function countText(count) {
    return whole.format(count);
}

function timeText(seconds) {
    if (seconds >= 100) {
        return `${whole.format(seconds)} s`;
    }
    if (seconds >= 1) {
        return `${seconds.toPrecision(3)} s`;
    }
    if (seconds === 0) {
        return "0 s";
    }
    return seconds >= 0.001 ? `${(seconds * 1e3).toPrecision(3)} ms`
        : `${whole.format(seconds * 1e6)} \u00b5s`;
}

function shareText(share) {
    return (100 * share).toFixed(2);
}

/* ---- statistics ---- */

/* How many samples a count stands for, and what CPU time; RUN is the object in the page. */
function samplesOf(run, count) {
    return run.unit === "us" ? count * run.rate / 1e6 : count;
}

function secondsOf(run, count) {
    return run.unit === "us" ? count / 1e6 : count / run.rate;
}

/* A share of the whole and its standard error, that of the binomial distribution of what was
   sampled on its SIDE. */
function shareOf(run, count, all, side = 0) {
    const share = all > 0 ? count / all : 0;
    const samples = samplesOf(run, all) * run.sampled[side] / run.rate;
    return {share, error: samples > 0 ? Math.sqrt(share * (1 - share) / samples) : 0};
}

/* How a share has changed; chance: it may as well be the same. */
function changeOf(run, counts, all) {
    const before = shareOf(run, counts[0], all[0], 0), after = shareOf(run, counts[1], all[1], 1);
    const change = after.share - before.share, error = Math.hypot(before.error, after.error);
    const larger = Math.max(before.share, after.share);
    return {
        before, after, change, error,
        part: larger > 0 ? change / larger : 0,
        chance: Math.abs(change) < CHANCE_ERRORS * error || change === 0,
    };
}

/* ---- colours ---- */

/* What kind of frame a name and its depth say it is. */
function kindOf(name, depth, roots) {
    if (depth <= roots) {
        return "thread";
    }
    if (/^\[.*\]$/.test(name)) {
        return "mark";
    }
    if (name.endsWith("_[k]")) {
        return "kernel";
    }
    if (name.endsWith("_[i]")) {
        return "inlined";
    }
    return /\+0x[0-9a-f]+$/.test(name) ? "nameless" : "function";
}

/* One function has one shade wherever it stands, and those of one name before its < or ( too. */
function shadeOf(name) {
    let hash = 2166136261;
    for (const c of name.split(/[<(]/, 1)[0]) {
        hash = Math.imul(hash ^ c.codePointAt(0), 16777619);
    }
    return ((hash ^ (hash >>> 15)) >>> 0) % SHADES.length;
}

function kindColour(name, depth, roots) {
    const kind = kindOf(name, depth, roots);
    if (UNSHADED.includes(kind)) {
        return `var(--${kind})`;
    }
    const [lightness, hue] = SHADES[shadeOf(name)];
    return `oklch(from var(--${kind}) calc(l + ${lightness}) c calc(h + ${hue}))`;
}

function changeColour(change) {
    if (change.chance) {
        return "var(--change-0)";
    }
    const level = 1 + LEVELS.filter((least) => Math.abs(change.part) >= least).length;
    return `var(--change-${change.part > 0 ? "more" : "less"}-${level})`;
}

/* ---- descriptions ---- */

function row(head, cells) {
    return element("tr", {}, element("th", {scope: "row", textContent: head}),
        ...cells.map((cell) => element("td", {}, cell)));
}

function table(heads, rows) {
    const top = element("tr", {}, element("td"),
        ...heads.map((head) => element("th", {scope: "col", textContent: head})));
    return element("table", {}, element("thead", {}, top), element("tbody", {}, ...rows));
}

function withError(value, error, unit) {
    return element("span", {}, value, element("i", {textContent: ` \u00b1 ${error}`}), unit);
}

/* Of one profile: samples, share and CPU time. */
function countsRow(run, head, count, all) {
    const samples = samplesOf(run, count), share = shareOf(run, count, all);
    return row(head, [
        withError(countText(samples), countText(Math.sqrt(samples * run.rate / run.sampled[0])), ""),
        withError(shareText(share.share), shareText(share.error), " %"),
        timeText(secondsOf(run, count)),
    ]);
}

function changeRow(run, head, counts, all) {
    const change = changeOf(run, counts, all);
    const sign = change.change > 0 ? "+" : change.change < 0 ? "\u2212" : "";
    const told = withError(sign + shareText(Math.abs(change.change)), shareText(change.error), "");
    told.className = change.chance ? "" : change.change > 0 ? "more" : "less";
    return row(head, [
        withError(shareText(change.before.share), shareText(change.before.error), " %"),
        withError(shareText(change.after.share), shareText(change.after.error), " %"),
        told,
    ]);
}

/* What is known of frame I of PROFILE: a table, and lines under it. WITHIN: the frame of the thread that
 * is shown, 0 for all. */
function factsOf(run, profile, i, within) {
    const all = profile.total.map((total) => total[0]);
    const self = profile.self.map((own) => own[i]), total = profile.total.map((sums) => sums[i]);
    if (profile.sides > 1) {
        const counts = total.map((count) => countText(samplesOf(run, count))).join(" \u2192 ");
        const change = changeOf(run, total, all);
        const chance = change.chance && change.change !== 0 ? "; the change of the total may be chance" : "";
        return [
            table(["before", "after", "points"],
                [changeRow(run, "Total", total, all), changeRow(run, "Self", self, all)]),
            element("p", {textContent: `${counts} samples${chance}`}),
        ];
    }
    const rows = [countsRow(run, "Total", total[0], all[0]), countsRow(run, "Self", self[0], all[0])];
    const facts = [table(["samples", "share", "CPU time"], rows)];
    if (within !== 0 && within !== i) {
        const part = shareOf(run, total[0], profile.total[0][within]);
        facts.push(element("p", {textContent:
            `${shareText(part.share)} \u00b1 ${shareText(part.error)} % of what is shown`}));
    }
    return facts;
}
