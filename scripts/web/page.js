/*
 * The page: what is shown of the profile, and what clicks, keys and the window's size do to it. Drawing is
 * d3-flame-graph's. It gets no more than what can be seen at the zoom of the moment, so that a profile may
 * have any number of stacks; it keeps frames apart by their numbers, so that they move where they were.
 */

const ROW = 20; /* px */
const FRAMES_MOST = 3000; /* that are drawn at a time */
const FRAMES_MOVING = 1500; /* with more than these nothing moves slowly */
const MOVE_MS = 350;
const NARROW = 35; /* px: the library shows no names in frames of less */
const AS_ONE = "as one";

const find = (id) => document.getElementById(id);
const run = JSON.parse(find("profile").textContent);
const everything = profileDecode(run);
const stage = find("stage"), graph = find("graph"), tip = find("tip");

const shown = {
    profile: everything,
    roots: run.roots,
    top: 0, /* the frame at the root: 0, or that of a thread */
    focus: 0, /* the one that is as wide as the window */
    cursor: 0, /* the one that keys move from */
    side: run.sides.length - 1, /* whose counts make the widths */
    inverted: false,
    matches: null,
    drawn: new Map(), /* frame -> its node in d3's tree */
    size: "", /* that it is drawn for */
};

function nameOf(i) {
    const name = shown.profile.name[i];
    return name < 0 ? "all" : run.names[name];
}

/* What a picture is made for. */
function sizeOf() {
    return `${graph.clientWidth} ${stage.clientHeight}`;
}

/* ---- drawing ---- */

const chart = flamegraph.default();
chart.cellHeight(ROW).getName((d) => nameOf(d.data.i)).getValue((d) => d.v)
    .setColorMapper((d) => colourOf(d.data.i))
    .tooltip(Object.assign(() => {}, {show: tipShow, hide: tipHide}));

function colourOf(i) {
    const {profile, roots} = shown;
    const name = profile.name[i];
    if (name < 0) {
        return "var(--thread)";
    }
    if (shown.matches && shown.matches[name]) {
        return "var(--match)";
    }
    if (profile.sides > 1) {
        return changeColour(changeOf(run, profile.total.map((t) => t[i]), profile.total.map((t) => t[0])));
    }
    return kindColour(run.names[name], profile.depth[i], roots);
}

function isStill() {
    return shown.drawn.size > FRAMES_MOVING || matchMedia("(prefers-reduced-motion: reduce)").matches;
}

/* Ends what the library would still move: all is at its place at once. */
function settle(width, height) {
    const top = (d) => shown.inverted ? d.depth * ROW : height - (d.depth + 1) * ROW;
    const frames = d3.select(graph).selectAll("g.frame").interrupt()
        .attr("transform", (d) => `translate(${d.x0 * width},${top(d)})`);
    frames.select("rect").interrupt().attr("width", (d) => (d.x1 - d.x0) * width);
    frames.select("foreignObject div").interrupt().text((d) => nameOf(d.data.i));
}

/* Draws what is shown now. `still`: at once, without frames that move to their places. */
function draw(still) {
    const width = graph.clientWidth;
    shown.size = sizeOf();
    const view = viewOf(shown.profile, shown.top, shown.focus, shown.side, width, FRAMES_MOST);
    const root = d3.hierarchy(view.tree, (branch) => branch.c);
    shown.drawn = new Map();
    root.each((node) => {
        node.id = node.data.i;
        shown.drawn.set(node.id, node);
    });
    const height = Math.max(stage.clientHeight, (root.height + 1) * ROW);
    chart.width(width).height(height).inverted(shown.inverted)
        .transitionDuration(MOVE_MS);
    d3.select(graph).datum(root).select("svg").attr("height", height);
    chart.update();
    if (still || isStill()) {
        settle(width, height);
    }
    d3.select(graph).selectAll("g.frame").classed("narrow", (d) => (d.x1 - d.x0) * width < NARROW);
    mark();
    tell(view.drawn);
}

/* What the library does not know of: the frame of the keys, and those that are not looked for. */
function mark() {
    d3.select(graph).classed("searching", shown.matches !== null).selectAll("g.frame")
        .classed("hit", (d) => isMatch(d.data.i)).classed("cursor", (d) => d.data.i === shown.cursor);
}

function isMatch(i) {
    return shown.matches !== null && shown.matches[shown.profile.name[i]] === 1;
}

/* Brings the row of a frame into sight, with some of its callers. */
function scrollTo(i) {
    const depth = shown.drawn.has(i) ? shown.drawn.get(i).depth : 0;
    const height = graph.firstElementChild.height.baseVal.value;
    stage.scrollTop = shown.inverted ? (depth - 3) * ROW : height - (depth - 3) * ROW - stage.clientHeight;
}

/* ---- what is said ---- */

function tell(drawn) {
    const {profile, top} = shown;
    const there = profile.end[top] - top;
    find("drawn").textContent = `${countText(drawn)} of ${countText(there)} frames drawn`;
    find("reset").disabled = shown.focus === shown.top;
    details(shown.cursor);
    searchTell();
}

function details(i) {
    find("details").replaceChildren(
        element("h2", {textContent: nameOf(i)}),
        element("div", {className: "facts"}, ...factsOf(run, shown.profile, i, shown.top)));
}

function factsTell() {
    const ofSides = (told) => everything.total.map((total) => told(total[0])).join(" \u2192 ");
    const samples = ofSides((count) => countText(samplesOf(run, count)));
    const times = ofSides((count) => timeText(secondsOf(run, count)));
    document.title = `${run.title} \u2013 selfsample`;
    find("title").textContent = run.title;
    find("facts").textContent = `${samples} samples at ${run.rate} Hz, ${times} of CPU time`;
    find("facts").title = run.sides.join(" \u2192 ");
}

function legendTell() {
    const legend = find("legend");
    const swatch = (colour) => element("b", {style: `background: var(--${colour})`});
    if (run.sides.length > 1) {
        const steps = ["less-4", "less-3", "less-2", "less-1", "0", "more-1", "more-2", "more-3", "more-4"]
            .map((step) => swatch(`change-${step}`));
        legend.append(element("span", {className: "scale"}, "smaller share", ...steps, "larger share"));
        return;
    }
    const kinds = new Set();
    for (let i = 1; i < everything.count; i++) {
        kinds.add(kindOf(nameOf(i), everything.depth[i], run.roots));
    }
    legend.append(...KINDS.filter(([kind]) => kinds.has(kind))
        .map(([kind, text]) => element("span", {}, swatch(kind), text)));
}

function tipShow(event, d) {
    tip.replaceChildren(element("h2", {textContent: nameOf(d.data.i)}),
        ...factsOf(run, shown.profile, d.data.i, shown.top));
    tip.hidden = false;
    tipMove(event);
}

function tipHide() {
    tip.hidden = true;
}

function tipMove(event) {
    const gap = 14, {offsetWidth: width, offsetHeight: height} = tip;
    const left = Math.min(event.clientX + gap, innerWidth - width - gap);
    const below = event.clientY + gap + height < innerHeight;
    tip.style.left = `${Math.max(gap / 2, left)}px`;
    tip.style.top = `${Math.max(gap / 2, below ? event.clientY + gap : event.clientY - gap - height)}px`;
}

/* ---- zoom, threads, search ---- */

function zoom(i) {
    shown.focus = shown.cursor = i;
    tipHide();
    draw(false);
    scrollTo(i);
}

function threadShow(value) {
    const asOne = value === AS_ONE;
    shown.profile = asOne ? mergedOnce() : everything;
    shown.roots = asOne ? 0 : run.roots;
    shown.top = shown.focus = shown.cursor = asOne ? 0 : Number(value);
    draw(true);
    scrollTo(shown.top);
}

let merged = null;

function mergedOnce() {
    merged = merged || profileMerge(everything, run.roots);
    return merged;
}

function threadsOffer() {
    const threads = threadsOf(everything, run.roots);
    const all = everything.total[shown.side][0];
    const option = (value, text) => element("option", {value, textContent: text});
    const line = (i) => `${"\u2003".repeat(everything.depth[i] - 1)}${nameOf(i)} \u2014 ` +
        `${shareText(everything.total[shown.side][i] / all)} %`;
    find("thread-box").hidden = threads.length < 2;
    find("thread").append(option(0, `All threads`), option(AS_ONE, "All threads, as one"),
        ...threads.map((i) => option(i, line(i))));
}

function search(text) {
    shown.matches = matchesOf(run.names, text);
    find("search").classList.toggle("wrong", text !== "" && shown.matches === null);
    draw(true);
}

function searchTell() {
    let text = "";
    if (shown.matches !== null) {
        const {profile, top, side} = shown;
        const sums = matchedTotals(profile, top, shown.matches);
        const share = shareOf(run, sums[side], profile.total[side][top], side);
        text = sums[side] > 0 ? `${shareText(share.share)} \u00b1 ${shareText(share.error)} %` : "none";
    }
    find("matched").textContent = text;
    find("search-box").classList.toggle("active", text !== "");
}

/* ---- switches ---- */

function invert() {
    shown.inverted = !shown.inverted;
    find("orientation").setAttribute("aria-pressed", shown.inverted);
    draw(false);
    scrollTo(shown.cursor);
}

function sideTell() {
    const button = find("side");
    button.hidden = run.sides.length < 2;
    button.textContent = `Widths: ${shown.side === BEFORE ? "before" : "after"}`;
    button.title = `As in ${run.sides[shown.side]}`;
}

function sideSwitch() {
    shown.side = 1 - shown.side;
    if (!(shown.profile.total[shown.side][shown.focus] > 0)) {
        shown.focus = shown.cursor = shown.top;
    }
    sideTell();
    draw(false);
}

/* localStorage may be refused to pages from files. */
function themeKept(theme) {
    try {
        if (theme) {
            localStorage.setItem("selfsample-theme", theme);
        }
        return localStorage.getItem("selfsample-theme");
    } catch {
        return theme;
    }
}

const systemDark = matchMedia("(prefers-color-scheme: dark)");

function themeShow(theme) {
    document.documentElement.dataset.theme = theme;
    find("theme").setAttribute("aria-pressed", theme === "dark");
}

function themeSwitch() {
    const theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    themeKept(theme);
    themeShow(theme);
}

function notesShow() {
    find("notes").showModal();
}

/* ---- keys and the pointer ---- */

/* The drawn frame next to the cursor: over or under it by depth, or beside it. */
function neighbour(key) {
    const node = shown.drawn.get(shown.cursor);
    const outward = shown.inverted ? "ArrowDown" : "ArrowUp";
    if (!node) {
        return shown.drawn.get(shown.focus);
    }
    if (key === "ArrowUp" || key === "ArrowDown") {
        return key === outward ? node.children && node.children[0] : node.parent;
    }
    const siblings = node.parent ? node.parent.children : [node];
    return siblings[siblings.indexOf(node) + (key === "ArrowRight" ? 1 : -1)];
}

function cursorMove(key) {
    const next = neighbour(key);
    if (!next) {
        return;
    }
    shown.cursor = next.id;
    mark();
    details(next.id);
    graph.querySelector("g.cursor").scrollIntoView({block: "nearest"});
}

function escape() {
    if (shown.matches !== null) {
        find("search").value = "";
        search("");
    } else {
        zoom(shown.top);
    }
}

const graphKeys = {
    Enter: () => zoom(shown.cursor),
    " ": () => zoom(shown.cursor),
    Backspace: () => zoom(shown.focus === shown.top ? shown.top : shown.profile.parent[shown.focus]),
};
const pageKeys = {
    "/": () => find("search").focus(),
    i: invert,
    d: themeSwitch,
    "?": notesShow,
    Escape: escape,
};

function keyTake(event) {
    const inField = event.target.matches("input, select");
    if (event.ctrlKey || event.altKey || event.metaKey || find("notes").open ||
        (inField && event.key !== "Escape")) {
        return;
    }
    const onGraph = event.target === graph || event.target === document.body;
    const action = onGraph && event.key.startsWith("Arrow") ? () => cursorMove(event.key)
        : onGraph && graphKeys[event.key] || pageKeys[event.key];
    if (action) {
        event.preventDefault();
        action();
    }
}

/* Before the library's own zoom, which knows no more than is drawn. */
function clickTake(event) {
    const frame = event.target.closest("g.frame");
    if (frame) {
        event.stopPropagation();
        zoom(d3.select(frame).datum().data.i);
    }
}

function listen() {
    let waiting = 0;
    graph.addEventListener("click", clickTake, true);
    graph.addEventListener("pointermove", (event) => tip.hidden || tipMove(event));
    stage.addEventListener("scroll", tipHide);
    document.addEventListener("keydown", keyTake);
    find("search").addEventListener("input", (event) => {
        clearTimeout(waiting);
        waiting = setTimeout(() => search(event.target.value.trim()), 100);
    });
    find("thread").addEventListener("change", (event) => threadShow(event.target.value));
    find("reset").addEventListener("click", () => zoom(shown.top));
    find("orientation").addEventListener("click", invert);
    find("side").addEventListener("click", sideSwitch);
    find("theme").addEventListener("click", themeSwitch);
    find("help").addEventListener("click", notesShow);
    find("licences-show").addEventListener("click", () => {
        find("licences-text").textContent = find("licences").textContent;
        find("licences-text").hidden = !find("licences-text").hidden;
    });
    systemDark.addEventListener("change", () => themeKept() || themeShow(systemDark.matches ? "dark" : "light"));
    new ResizeObserver(() => shown.size === sizeOf() || draw(true)).observe(stage);
}

function begin() {
    themeShow(themeKept() || (systemDark.matches ? "dark" : "light"));
    find("notes-difference").hidden = run.sides.length < 2;
    factsTell();
    legendTell();
    threadsOffer();
    sideTell();
    /* The library makes its tree of what it is given first; all later ones are made here. */
    d3.select(graph).datum({i: 0, v: 0}).call(chart.width(graph.clientWidth).height(ROW).transitionDuration(0));
    draw(true);
    scrollTo(shown.top);
    listen();
}

begin();
