/*
 * The profile: a tree of stacks in arrays, in the order of a walk from the root. What is under frame i
 * is i + 1 up to end[i] - 1; frame 0 is all of it and has no name (-1). self and total have an array for
 * each side, two of them for a difference. Nothing here knows of the page. Every walk is a loop: stacks
 * may be deep.
 */

const BEFORE = 0;

function arraysOf(names, sides, count) {
    const counts = () => Array.from({length: sides}, () => new Float64Array(count));
    return {
        names, sides, count,
        name: new Int32Array(count), parent: new Int32Array(count),
        depth: new Int32Array(count), end: new Int32Array(count),
        self: counts(), total: counts(),
    };
}

/* Fills in what follows from names, parents and counts. */
function profileSum(profile) {
    const {count, parent, depth, end, self, total} = profile;
    for (let i = 0; i < count; i++) {
        depth[i] = i === 0 ? 0 : depth[parent[i]] + 1;
        end[i] = i + 1;
    }
    for (let i = count - 1; i > 0; i--) {
        if (end[parent[i]] < end[i]) {
            end[parent[i]] = end[i];
        }
    }
    self.forEach((own, side) => {
        const sums = total[side];
        sums.set(own);
        for (let i = count - 1; i > 0; i--) {
            sums[parent[i]] += sums[i];
        }
    });
    return profile;
}

/* Of the object that the command has put into the page; view_flamegraph.c says what is in it. */
function profileDecode(data) {
    const sides = data.sides.length, nodes = data.nodes;
    const profile = arraysOf(data.names, sides, nodes.length / (2 + sides) + 1);
    profile.name[0] = profile.parent[0] = -1;
    for (let i = 1, at = 0; i < profile.count; i++) {
        let parent = i - 1;
        profile.name[i] = nodes[at++];
        for (let up = nodes[at++]; up > 0; up--) {
            parent = profile.parent[parent];
        }
        profile.parent[i] = parent;
        for (let side = 0; side < sides; side++) {
            profile.self[side][i] = nodes[at++];
        }
    }
    return profileSum(profile);
}

/* Calls visit with each frame right under frame i, the heavier ones first. */
function eachChild(profile, i, visit) {
    for (let child = i + 1; child < profile.end[i]; child = profile.end[child]) {
        visit(child);
    }
}

function weightOf(profile, i) {
    return profile.total.reduce((sum, total) => sum + total[i], 0);
}

/* Frames that are threads, or above them: up to this depth. */
function threadsOf(profile, roots) {
    const found = [];
    for (let i = 1; i < profile.count; i = profile.depth[i] < roots ? i + 1 : profile.end[i]) {
        if (profile.depth[i] <= roots) {
            found.push(i);
        }
    }
    return found;
}

/* The frames right under any of these, as lists of one name, the heaviest first. */
function childrenByName(profile, frames) {
    const lists = new Map();
    for (const frame of frames) {
        eachChild(profile, frame, (child) => {
            const list = lists.get(profile.name[child]);
            if (list) {
                list.push(child);
            } else {
                lists.set(profile.name[child], [child]);
            }
        });
    }
    const weight = (list) => list.reduce((sum, frame) => sum + weightOf(profile, frame), 0);
    return [...lists.values()].map((list) => [weight(list), list])
        .sort((a, b) => b[0] - a[0]).map((pair) => pair[1]);
}

/* What is under the threads, as if they were one: a profile without threads. */
function profileMerge(profile, roots) {
    const tops = threadsOf(profile, roots).filter((i) => profile.depth[i] === roots);
    const merged = [], parents = [];
    const waiting = [[-1, tops]];
    while (waiting.length > 0) {
        const [parent, frames] = waiting.pop();
        const number = merged.push(frames) - 1;
        parents.push(parent);
        const lists = childrenByName(profile, frames);
        for (let k = lists.length - 1; k >= 0; k--) {
            waiting.push([number, lists[k]]);
        }
    }
    const result = arraysOf(profile.names, profile.sides, merged.length);
    merged.forEach((frames, i) => {
        result.name[i] = i === 0 ? -1 : profile.name[frames[0]];
        result.parent[i] = parents[i];
        profile.self.forEach((self, side) => {
            result.self[side][i] = frames.reduce((sum, frame) => sum + self[frame], 0);
        });
    });
    return profileSum(result);
}

/*
 * What is drawn of frame i: an object for d3-flame-graph, with those under it that count `least` or more,
 * level by level, and no more than `most`. `left`: there would have been more.
 */
function branchOf(profile, i, side, least, most) {
    const total = profile.total[side];
    const list = [{i, v: total[i], c: []}];
    let left = false;
    for (let at = 0; at < list.length; at++) {
        const branch = list[at];
        eachChild(profile, branch.i, (child) => {
            if (total[child] < least || total[child] === 0) {
                return;
            }
            if (list.length >= most) {
                left = true;
                return;
            }
            const next = {i: child, v: total[child], c: []};
            branch.c.push(next);
            list.push(next);
        });
    }
    return {tree: list[0], drawn: list.length, left};
}

/*
 * The same of what can be seen in a picture so many pixels wide. Where frames of a pixel are too many, those
 * of up to WIDE pixels are left out, and then the deepest ones. It stands on its callers up to frame `top`, the
 * nearest ones where they are many: they are faded, so that all are as wide as frame i.
 */
const WIDE = 8, CALLERS_MOST = 400;

function viewOf(profile, top, i, side, pixels, most) {
    const pixel = profile.total[side][i] / Math.max(pixels, 1);
    let view;
    for (let wide = 1; wide <= WIDE && (!view || view.left); wide *= 1.5) {
        view = branchOf(profile, i, side, wide * pixel, most);
    }
    for (let caller = i, callers = 0; caller !== top && callers < CALLERS_MOST; callers++) {
        caller = profile.parent[caller];
        view.tree = {i: caller, v: profile.total[side][caller], c: [view.tree], fade: true};
        view.drawn++;
    }
    return view;
}

/* Sums up the frames under `top` whose names are among MATCHES (1 for each such name); what is under
 * one of them counts once. */
function matchedTotals(profile, top, matches) {
    const sums = profile.total.map(() => 0);
    for (let i = top; i < profile.end[top];) {
        if (profile.name[i] >= 0 && matches[profile.name[i]]) {
            sums.forEach((_, side) => { sums[side] += profile.total[side][i]; });
            i = profile.end[i];
        } else {
            i++;
        }
    }
    return sums;
}

/* A test of names: /a regular expression/, else a part of the name, in whatever case. */
function matcherOf(text) {
    const expression = /^\/(.+)\/$/.exec(text);
    if (expression) {
        try {
            const pattern = new RegExp(expression[1], "i");
            return (name) => pattern.test(name);
        } catch {
            return null;
        }
    }
    const part = text.toLowerCase();
    return (name) => name.toLowerCase().includes(part);
}

/* 1 for each name that TEXT is found in; null where there is nothing to be looked for. */
function matchesOf(names, text) {
    const matcher = text === "" ? null : matcherOf(text);
    return matcher && Uint8Array.from(names, (name) => matcher(name) ? 1 : 0);
}
