// NCCL's double binary tree: two trees over the same nodes, in which nearly every node that has children in one is a leaf
// of the other (Sanders, Speck and Träff 2009; as ncclGetDtree of NCCL's src/graph/trees.cc numbers them).
#pragma once

#include <vector>

namespace plumbline {

enum class TreeOfTwo { first, second };

/// The parent of every one of `nodes` nodes; -1: the root. The second tree is the first one mirrored where the number of
/// nodes is even, and moved on by one where it is odd.
std::vector<int> tree_parents(int nodes, TreeOfTwo which);

}  // namespace plumbline
