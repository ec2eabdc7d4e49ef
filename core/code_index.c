/* Finds code by address and time. Runs in the helper; every chain is followed up to a limit. */
#include "code_index.h"

#include <errno.h>

#define HEADS_LOG 18u

#define SMALL_LOG       12u /* granules of pieces that span few of them ... */
#define LARGE_LOG       21u /* ... and of the others */
#define SMALL_SPANS_MAX 16u

/* Older pieces of one granule are not looked at beyond this many. */
#define CHAIN_MAX 65536u

struct code_link {
    uint32_t piece;
    uint32_t next; /* link, plus 1; 0: the last */
};

void code_index_init(struct code_index *index, struct arena *arena)
{
    *index = (struct code_index){.arena = arena};
    sequence_init(&index->pieces, arena, sizeof(struct code_piece));
    sequence_init(&index->links, arena, sizeof(struct code_link));
}

struct code_piece *code_index_at(const struct code_index *index, uint32_t number)
{
    return sequence_at(&index->pieces, number);
}

static uint32_t *head_of(const struct code_index *index, uint64_t granule, unsigned granule_log)
{
    uint64_t hash = (granule << 6 | granule_log) * 0x9e3779b97f4a7c15u;
    return &index->heads[hash >> (64 - HEADS_LOG)];
}

static bool link_add(struct code_index *index, uint32_t *head, uint32_t piece)
{
    struct code_link *link = sequence_append(&index->links);
    if (link == NULL)
        return false;
    *link = (struct code_link){piece, *head};
    *head = index->links.count;
    return true;
}

int code_index_add(struct code_index *index, uint64_t start, uint64_t bytes, uint64_t from_ns,
                   uint64_t tag)
{
    if (bytes == 0 || bytes > CODE_PIECE_BYTES_MAX || start + (bytes - 1) < start)
        return -EINVAL;
    if (index->pieces.count >= CODE_PIECES_MAX)
        return -ENOSPC;
    if (index->heads == NULL)
        index->heads = arena_alloc_array(index->arena, 1u << HEADS_LOG, sizeof *index->heads);
    struct code_piece *piece = index->heads != NULL ? sequence_append(&index->pieces) : NULL;
    if (piece == NULL)
        return -ENOMEM;
    *piece = (struct code_piece){
        .start = start, .from_ns = from_ns, .tag = tag, .bytes = (uint32_t)bytes};
    uint64_t last = start + (bytes - 1);
    unsigned log =
        (last >> SMALL_LOG) - (start >> SMALL_LOG) < SMALL_SPANS_MAX ? SMALL_LOG : LARGE_LOG;
    for (uint64_t granule = start >> log; granule <= last >> log; granule++)
        if (!link_add(index, head_of(index, granule, log), index->pieces.count - 1))
            return -ENOMEM;
    return 0;
}

struct search {
    uint64_t address, now_ns;
    uint32_t youngest; /* that was there at now_ns */
    uint32_t oldest;   /* that ever covered the address */
    bool later;        /* one came after now_ns */
};

static void search_chain(const struct code_index *index, uint32_t link, struct search *search)
{
    for (uint32_t steps = 0; link != 0 && steps < CHAIN_MAX; steps++) {
        const struct code_link *at = sequence_at(&index->links, link - 1);
        const struct code_piece *piece = code_index_at(index, at->piece);
        link = at->next;
        if (search->address - piece->start >= piece->bytes)
            continue;
        if (search->oldest == CODE_NONE || at->piece < search->oldest)
            search->oldest = at->piece;
        if (piece->from_ns > search->now_ns) {
            search->later = true;
            continue;
        }
        /* What follows in this chain is older. */
        if (search->youngest == CODE_NONE || at->piece > search->youngest)
            search->youngest = at->piece;
        return;
    }
}

uint32_t code_index_find(const struct code_index *index, uint64_t address, uint64_t now_ns,
                         bool *settled)
{
    struct search search = {address, now_ns, CODE_NONE, CODE_NONE, false};
    if (index->heads != NULL) {
        search_chain(index, *head_of(index, address >> SMALL_LOG, SMALL_LOG), &search);
        search_chain(index, *head_of(index, address >> LARGE_LOG, LARGE_LOG), &search);
    }
    *settled = !search.later;
    return search.youngest != CODE_NONE ? search.youngest : search.oldest;
}
