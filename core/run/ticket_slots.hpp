// State of each ticket in a transport until it has been waited for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "core/run/collective.hpp"

namespace plumbline {

/// Slots numbered by tickets. A slot stays where it is in memory, and is used again once its ticket is
/// closed: as its last user left it, with the memory it holds.
template <class Slot>
class TicketSlots {
 public:
  Ticket open() {
    if (free_.empty()) {
      slots_.emplace_back();
      return {static_cast<std::int64_t>(slots_.size()) - 1};
    }
    const std::int64_t id = free_.back();
    free_.pop_back();
    return {id};
  }
  /// Clears the ticket.
  void close(Ticket& ticket) {
    free_.push_back(ticket.id);
    ticket = {};
  }
  Slot& operator[](const Ticket& ticket) { return slots_[static_cast<std::size_t>(ticket.id)]; }
  /// True if no ticket is open.
  bool idle() const { return free_.size() == slots_.size(); }
  /// All slots, those in use and those not.
  std::deque<Slot>& all() { return slots_; }

 private:
  std::deque<Slot> slots_;
  std::vector<std::int64_t> free_;
};

}  // namespace plumbline
