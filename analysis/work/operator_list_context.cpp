// Attention under context parallelism (bench/training/context.md). The list is that of the last CP rank. It
// merges the largest K/V gradients and, with a window or without load balance, has the most pairs of tokens;
// else all ranks are alike.
#include <cmath>

#include "analysis/work/operator_list_calls.hpp"

namespace plumbline {
namespace {

/// Elements per token of keys and values.
std::int64_t both_widths(const AttentionWidths& a) {
  return a.k + a.values();
}

}  // namespace

void CallList::one_attention(bool is_backward, std::int64_t window) {
  const AttentionWidths& a = s_.attention;
  add(is_backward ? "attention backward" : "attention forward",
      AttentionCall{.backward = is_backward,
                    .dropout = a.dropout,
                    .scores_apart = is_backward && s_.numerics.cuda && s_.numerics.deterministic &&
                                    s_.numerics.type != DType::fp32,
                    .unfused = a.unfused && s_.cp.ranks == 1,
                    .queries = s_.stream.seq,
                    .head_dim = a.latent() ? (a.head_dim + a.value_dim) / 2 : a.head_dim,
                    .group = a.heads / a.kv_heads,
                    .heads = a.heads * s_.stream.batch,
                    .window = window,
                    .prefix = a.prefix});
  calls.back().share = a.share;
}

void CallList::whole_attention(bool is_backward, std::int64_t window) {
  const AttentionWidths& a = s_.attention;
  const std::size_t first = calls.size();
  one_attention(is_backward, window);
  if (a.packed.empty()) return;
  const OperatorCall whole = calls.back();
  calls.resize(first);
  for (const PackedLength& length : a.packed) {
    calls.push_back(whole);
    calls.back().share = length.count;
    last<AttentionCall>().queries = length.tokens;
  }
}

void CallList::by_conversation(const char* name, std::int64_t width, double traffic, std::int64_t head) {
  if (s_.attention.packed.empty()) return rows(name, s_.stream.tokens * width, traffic, head);
  for (const PackedLength& length : s_.attention.packed) {
    if (width == 0) continue;
    const int chunks = length.ranks > 1 ? 2 : 1;
    rows(name, length.tokens / chunks * width, traffic, head);
    calls.back().share = length.count * chunks;
  }
}

/// Converts between the order of `ranks` ranks and that of positions: every chunk of every sequence.
void CallList::reorder_chunks(int ranks, std::int64_t width) {
  memory("copy", s_.chunk() * width, 2 * static_cast<double>(s_.numerics.e()));
  calls.back().count = std::int64_t{2} * ranks * s_.stream.batch;
}

void CallList::gather_keys_values(const char* label) {
  const auto e = static_cast<double>(s_.numerics.e());
  memory("copy", s_.stream.tokens * s_.attention.k, 2 * e);
  memory("copy", s_.stream.tokens * s_.attention.values(), 2 * e);
  collective(CallKind::all_gather, label, Group::context, s_.cp.ranks,
             s_.cp.ranks * s_.stream.tokens * both_widths(s_.attention), s_.numerics.type);
  reorder_chunks(s_.cp.ranks, both_widths(s_.attention));
  allocations(2);
}

void CallList::per_sequence(const char* name, std::int64_t elements, double traffic) {
  if (elements == 0) return;
  memory(name, elements, traffic);
  calls.back().count = s_.stream.batch;
}

/// Attention of one chunk of every sequence, and of a share of the heads if they are exchanged. `past`: given
/// keys in front of it; `keys`: given keys, if not all up to it.
void CallList::chunk_attention(bool is_backward, std::int64_t window, std::int64_t past, std::int64_t keys) {
  one_attention(is_backward, window);
  auto& call = last<AttentionCall>();
  call.queries = s_.ring_chunk();
  call.scores_apart = false;
  call.past = past;
  call.keys = keys;
  call.heads = s_.attention.heads / s_.cp.head_ranks;
  calls.back().count = s_.stream.batch;
}

/// The rank's keys and values, or gradients of another's, to the next rank of the sequence.
int CallList::ring_message(const char* label, const Ring& ring) {
  collective(CallKind::ring_shift, label, Group::context, ring.ranks,
             s_.stream.tokens * both_widths(s_.attention), s_.numerics.type);
  calls.back().share = ring.share;
  return start_collective(label);
}

/// Visible blocks of the last rank's two query chunks with the chunks of keys that are here in a step.
void CallList::ring_blocks(bool is_backward, std::int64_t window, const Ring& ring, int step) {
  const auto e = static_cast<double>(s_.numerics.e());
  const int latest = ring.ranks - 1;
  for (const RingPart& part : ring.parts) {
    const auto per_part = [&](const char* name, std::int64_t width, double traffic) {
      memory(name, part.rows * width, traffic);
      calls.back().count = part.count;
      calls.back().share = part.share;
    };
    const auto per_key = [&](const char* name, double traffic) {
      per_part(name, s_.attention.k, traffic);
      per_part(name, s_.attention.values(), traffic);
    };
    for (const int keys : {1, 0}) {
      bool opened = false;
      for (const int queries : {0, 1}) {
        const std::int64_t distance =
            (s_.cp.piece_of(ring.ranks, latest, queries) - s_.cp.piece_of(ring.ranks, latest - step, keys)) *
            part.chunk;
        if (distance < 0 || (window > 0 && distance - part.chunk + 1 >= window)) continue;
        chunk_attention(is_backward, window, distance, part.chunk);
        calls.back().count = part.count;
        if (!s_.attention.rings.empty()) calls.back().share = part.share;
        last<AttentionCall>().queries = part.chunk;
        if (distance > 0) {
          per_part(is_backward ? "add" : "attention_merge",
                   is_backward ? s_.attention.q : s_.attention.attended(), 3 * e);
        }
        if (is_backward && opened) per_key("add", 3 * e);
        opened = true;
      }
      if (is_backward && !opened) per_key("fill", e);
    }
  }
}

/// Calls of the last rank of a ring.
void CallList::ring_attention(bool is_backward, std::int64_t window, const Ring& ring) {
  const auto e = static_cast<double>(s_.numerics.e());
  const auto all_keys = [&](const char* name, std::int64_t width, double times) {
    memory(name, s_.stream.tokens * width, times * e);
    calls.back().share = ring.share;
  };
  const auto own_keys = [&](const char* name, double times) {
    all_keys(name, s_.attention.k, times);
    all_keys(name, s_.attention.values(), times);
  };
  own_keys("copy", 2);
  int gradients_sent = 0;
  for (int step = 0; step < ring.ranks; ++step) {
    int keys_sent = 0;
    if (step + 1 < ring.ranks)
      keys_sent = ring_message(is_backward ? "context ring backward" : "context ring forward", ring);
    ring_blocks(is_backward, window, ring, step);
    if (keys_sent > 0) wait(keys_sent);
    if (!is_backward || step == 0) continue;
    if (step > 1) {
      wait(gradients_sent);
      all_keys("add", both_widths(s_.attention), 3);
    }
    gradients_sent = ring_message("context ring of gradients", ring);
  }
  if (!is_backward) return;
  wait(gradients_sent);
  own_keys("add", 3);
}

/// After a head exchange a rank stands for its group, with longer chunks and fewer heads: as many elements.
void CallList::ring_attention(bool is_backward, std::int64_t window) {
  ring_attention(is_backward, window, {s_.cp.ring(), 1, {{s_.ring_chunk(), s_.chunk(), s_.stream.batch, 1}}});
  allocations(is_backward ? 7 : 4);
}

/// Rings of all sizes, each for its share of micro-batches. A rank alone has whole conversations.
void CallList::dynamic_attention(bool is_backward) {
  for (const PackedRing& size : s_.attention.rings) {
    Ring ring{size.ranks, size.count, {}};
    for (const PackedLength& length : s_.attention.packed) {
      if (length.ranks != size.ranks) continue;
      ring.parts.push_back({length.tokens / 2, length.tokens / 2, 1, length.count});
      if (size.ranks > 1) continue;
      one_attention(is_backward, 0);
      calls.back().share = length.count;
      last<AttentionCall>().queries = length.tokens;
    }
    if (size.ranks > 1) ring_attention(is_backward, 0, ring);
  }
  // Zeros behind the last conversation.
  double rows = static_cast<double>(s_.stream.tokens);
  for (const PackedLength& length : s_.attention.packed)
    rows -= length.count * static_cast<double>(length.tokens);
  const auto padding = [&](std::int64_t width) {
    memory("fill", std::llround(rows) * width, static_cast<double>(s_.numerics.e()));
  };
  padding(is_backward ? s_.attention.q : s_.attention.attended());
  if (is_backward) {
    padding(s_.attention.k);
    padding(s_.attention.values());
  }
  allocations(is_backward ? 7 : 4);
}

/// Between the rank's tokens and the parts of all ranks, heads of `width` elements together.
void CallList::copy_parts(std::int64_t width) {
  memory("copy", s_.stream.tokens * width / s_.cp.head_ranks, 2 * static_cast<double>(s_.numerics.e()));
  calls.back().count = s_.cp.head_ranks;
}

void CallList::exchange_parts(const char* label, std::int64_t width) {
  collective(CallKind::all_to_all, label, s_.cp.ring() == 1 ? Group::context : Group::context_heads,
             s_.cp.head_ranks, s_.stream.tokens * width, s_.numerics.type);
}

void CallList::exchange_heads() {
  if (s_.cp.head_ranks == 1 || !s_.traits.attends_by_chunk) return;
  for (const std::int64_t width : {s_.attention.q, s_.attention.k, s_.attention.values()}) copy_parts(width);
  exchange_parts("context all-to-all of heads", s_.attention.qkv());
  reorder_chunks(s_.cp.head_ranks, s_.attention.qkv() / s_.cp.head_ranks);
  allocations(2);
}

/// All ranks do the same, except for the blocks where the groups are a ring.
void CallList::attention_of_heads(bool is_backward, std::int64_t window) {
  const std::int64_t all = s_.attention.qkv();
  const std::int64_t results = s_.attention.attended();
  if (is_backward) {
    copy_parts(results);
    exchange_parts("context all-to-all backward", results);
    reorder_chunks(s_.cp.head_ranks, results / s_.cp.head_ranks);
  }
  if (s_.cp.ring() > 1) {
    ring_attention(is_backward, window);
  } else {
    whole_attention(is_backward, window);
    last<AttentionCall>().heads /= s_.cp.head_ranks;
  }
  reorder_chunks(s_.cp.head_ranks, (is_backward ? all : results) / s_.cp.head_ranks);
  exchange_parts(is_backward ? "context all-to-all of gradients" : "context all-to-all of results",
                 is_backward ? all : results);
  copy_parts(is_backward ? s_.attention.q : results);
  if (is_backward) {
    copy_parts(s_.attention.k);
    copy_parts(s_.attention.values());
  }
  allocations(is_backward ? 6 : 3);
}

void CallList::gathered_attention(bool is_backward, std::int64_t window) {
  const auto e = static_cast<double>(s_.numerics.e());
  const std::int64_t chunk = s_.chunk();
  const std::int64_t early =
      s_.cp.piece_of(s_.cp.ranks, s_.cp.ranks - 1, 0) * chunk;  // where the chunks of the last rank begin
  const std::int64_t late = s_.cp.piece_of(s_.cp.ranks, s_.cp.ranks - 1, 1) * chunk;
  const std::int64_t unseen = s_.stream.seq - late - chunk;
  gather_keys_values(is_backward ? "context all-gather backward" : "context all-gather forward");
  if (!is_backward) {
    chunk_attention(false, window, early, 0);
    return chunk_attention(false, window, late, 0);
  }
  chunk_attention(true, window, late, 0);
  per_sequence("fill", unseen * both_widths(s_.attention), e);
  chunk_attention(true, window, early, 0);
  per_sequence("add", (early + chunk) * both_widths(s_.attention), 3 * e);
  reorder_chunks(s_.cp.ranks, both_widths(s_.attention));
  collective(CallKind::reduce_scatter, "context reduce-scatter", Group::context, s_.cp.ranks,
             s_.cp.ranks * s_.stream.tokens * both_widths(s_.attention), s_.numerics.type);
  memory("copy", s_.stream.tokens * s_.attention.k, 2 * e);
  memory("copy", s_.stream.tokens * s_.attention.values(), 2 * e);
  allocations(4);
}

void CallList::shared_attention(bool is_backward, std::int64_t window) {
  switch (s_.cp.comm_type) {
    case CpCommType::p2p:
      if (!s_.attention.rings.empty()) return dynamic_attention(is_backward);
      return ring_attention(is_backward, window);
    case CpCommType::a2a:
    case CpCommType::a2a_p2p:
      return attention_of_heads(is_backward, window);
    case CpCommType::all_gather:
      return gathered_attention(is_backward, window);
  }
}

}  // namespace plumbline
