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

/* What is drawn of frame i: an object for d3-flame-graph, with those of at least `least` below it. */
function branchOf(profile, i, side, least) {
    const total = profile.total[side];
    const top = {i, v: total[i], c: []};
    const waiting = [top];
    let drawn = 1;
    while (waiting.length > 0) {
        const branch = waiting.pop();
        eachChild(profile, branch.i, (child) => {
            if (total[child] >= least && total[child] > 0) {
                const next = {i: child, v: total[child], c: []};
                branch.c.push(next);
                waiting.push(next);
                drawn++;
            }
        });
    }
    return {top, drawn};
}

/*
 * The same, put under its callers up to frame `top`, which are faded, so that all are as wide as frame
 * i. No more than `most` frames: the narrowest ones are left out first.
 */
function viewOf(profile, top, i, side, pixels, most) {
    let least = profile.total[side][i] / Math.max(pixels, 1);
    let branch = branchOf(profile, i, side, least);
    while (branch.drawn > most) {
        least *= 1.5;
        branch = branchOf(profile, i, side, least);
    }
    let tree = branch.top;
    for (let caller = i; caller !== top;) {
        caller = profile.parent[caller];
        tree = {i: caller, v: profile.total[side][caller], c: [tree], fade: true};
        branch.drawn++;
    }
    return {tree, drawn: branch.drawn};
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
