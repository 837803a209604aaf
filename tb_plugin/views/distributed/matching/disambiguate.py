"""Assignment of equal calls by their end times."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tb_plugin.lib.codes import codes

Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]


def placed_by_time(worker: Int64, group: Int64, block: Int64, kind: Int64, place: Int64, end_ns: Int64) -> Int64:
    """Returns positions in blocks; calls of workers with fewer calls of a kind than others are placed by time.

    Calls of one collective end at nearly the same time. The clock offset of a worker is the median difference of ends in
    groups without missing calls of the kind; positions stay if there are none.
    """
    order = np.lexsort((place, worker, kind, block))
    which = codes(block, kind)[order]
    fresh = np.diff(which, prepend=-1) != 0
    own = np.flatnonzero(fresh | (np.diff(worker[order], prepend=-1) != 0))
    counts = np.diff(np.append(own, len(order)))
    parts = np.searchsorted(own, np.flatnonzero(fresh))
    uneven = np.maximum.reduceat(counts, parts) != np.minimum.reduceat(counts, parts)
    lacking = np.repeat(np.repeat(uneven, np.diff(np.append(parts, len(own)))), counts)
    sure = np.ones(len(order), np.bool_)
    sure[order[lacking]] = False
    offset, known = _offsets(worker, group, codes(block, place), end_ns, sure)
    late, found = end_ns - offset, place.copy()
    for at in np.flatnonzero(uneven).tolist():
        stop = parts[at + 1] if at + 1 < len(parts) else len(own)
        pieces = [order[own[i] : own[i] + counts[i]] for i in range(parts[at], stop)]
        whole = max(pieces, key=len)
        if not known[whole[0]] or not (np.diff(late[whole]) > 0).all():
            continue
        middles = (late[whole][1:] + late[whole][:-1]) // 2
        for mine in pieces:
            nearest = np.searchsorted(middles, late[mine])
            if known[mine[0]] and len(mine) < len(whole) and (np.diff(nearest) > 0).all():
                found[mine] = place[whole[nearest]]
    return found


def _offsets(worker: Int64, group: Int64, code: Int64, end_ns: Int64, sure: Bool) -> tuple[Int64, Bool]:
    """Clock offset of each call's worker within the call's group, and whether it is known.

    From the ``sure`` calls that have the largest number of workers of their group.
    """
    order = np.lexsort((end_ns, code))
    first = np.flatnonzero(np.diff(code[order], prepend=-1))
    count = np.diff(np.append(first, len(order)))
    middle = end_ns[order][first + count // 2]
    middle = (middle + end_ns[order][first + (count - 1) // 2]) // 2
    usual, members = np.empty(len(code), np.int64), np.empty(len(code), np.int64)
    usual[order], members[order] = np.repeat(middle, count), np.repeat(count, count)
    members[~sure] = 0
    most = np.zeros(int(group.max()) + 1, np.int64)
    np.maximum.at(most, group, members)
    rows = np.flatnonzero((members == most[group]) & (members > 1))
    pair = codes(group, worker)
    offset = np.zeros(int(pair.max()) + 1, np.int64)
    by_pair = rows[np.lexsort((end_ns[rows] - usual[rows], pair[rows]))]
    begin = np.flatnonzero(np.diff(pair[by_pair], prepend=-1))
    length = np.diff(np.append(begin, len(by_pair)))
    chosen = by_pair[begin + length // 2]
    offset[pair[chosen]] = (end_ns - usual)[chosen]
    known = np.zeros(len(offset), np.bool_)
    known[pair[chosen]] = True
    return offset[pair], known[pair]
