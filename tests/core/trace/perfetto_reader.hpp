// A Perfetto file as a trace viewer reads it.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <protozero/pbf_reader.hpp>
#include <set>
#include <string>
#include <vector>

namespace plumbline::test {

struct Slice {
  std::string name;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

/// A protobuf as a trace viewer sees it; checks its rules while reading.
struct Perfetto {
  std::map<std::uint64_t, std::string> tracks;
  std::map<std::uint64_t, std::uint64_t> parents;
  std::map<std::uint64_t, std::vector<Slice>> slices;
  std::map<std::uint64_t, std::vector<std::int64_t>> counters;
  std::map<std::uint64_t, std::vector<std::uint64_t>> flows_out;  // moments
  std::map<std::uint64_t, std::vector<std::uint64_t>> flows_in;
  std::set<std::string> processes;
  int cleared = 0;

  explicit Perfetto(const std::string& file) {
    protozero::pbf_reader reader(file);
    while (reader.next(1)) packet(reader.get_message());
    for (const auto& [uuid, open] : open_) EXPECT_EQ(open, 0) << "a slice without end on " << tracks[uuid];
  }

  /// Slices by the names of their tracks.
  std::map<std::string, std::vector<Slice>> by_track() const {
    std::map<std::string, std::vector<Slice>> found;
    for (const auto& [uuid, of_track] : slices) {
      auto& all = found[tracks.at(uuid)];
      all.insert(all.end(), of_track.begin(), of_track.end());
    }
    return found;
  }

 private:
  void packet(protozero::pbf_reader reader) {
    std::uint64_t timestamp = 0;
    bool sequence = false;
    protozero::pbf_reader event;
    bool has_event = false;
    while (reader.next()) {
      if (reader.tag() == 8) {
        timestamp = reader.get_uint64();
      } else if (reader.tag() == 10) {
        sequence = reader.get_uint32() != 0;
      } else if (reader.tag() == 13) {
        cleared += reader.get_uint32() == 1 ? 1 : 0;
      } else if (reader.tag() == 11) {
        event = reader.get_message();
        has_event = true;
      } else if (reader.tag() == 60) {
        descriptor(reader.get_message());
      } else {
        FAIL() << "field " << reader.tag() << " of a packet";
      }
    }
    EXPECT_TRUE(sequence);
    if (has_event) track_event(event, timestamp);
  }

  void descriptor(protozero::pbf_reader reader) {
    std::uint64_t uuid = 0;
    std::uint64_t parent = 0;
    std::string name;
    while (reader.next()) {
      if (reader.tag() == 1) {
        uuid = reader.get_uint64();
      } else if (reader.tag() == 2) {
        name = reader.get_string();
      } else if (reader.tag() == 5) {
        parent = reader.get_uint64();
      } else if (reader.tag() == 3) {
        protozero::pbf_reader process = reader.get_message();
        while (process.next(6)) processes.insert(process.get_string());
      } else {
        reader.skip();
      }
    }
    EXPECT_TRUE(tracks.emplace(uuid, name).second) << "described twice: " << name;
    parents[uuid] = parent;
    EXPECT_TRUE(parent == 0 || tracks.contains(parent)) << name;
  }

  void track_event(protozero::pbf_reader reader, std::uint64_t timestamp) {
    std::uint64_t uuid = 0;
    std::int32_t type = 0;
    std::string name;
    std::int64_t value = 0;
    while (reader.next()) {
      if (reader.tag() == 9) {
        type = reader.get_enum();
      } else if (reader.tag() == 11) {
        uuid = reader.get_uint64();
      } else if (reader.tag() == 23) {
        name = reader.get_string();
      } else if (reader.tag() == 30) {
        value = reader.get_int64();
      } else if (reader.tag() == 47) {
        flows_out[reader.get_fixed64()].push_back(timestamp);
      } else if (reader.tag() == 48) {
        flows_in[reader.get_fixed64()].push_back(timestamp);
      } else {
        reader.skip();
      }
    }
    ASSERT_TRUE(tracks.contains(uuid)) << "an event on a track that was not described";
    if (type == 1) {
      // Only the wait for a collective lies within another slice.
      EXPECT_EQ(open_[uuid]++, name == "exposed wait" ? 1 : 0) << "slices overlap on " << tracks[uuid];
      slices[uuid].push_back({name, timestamp, 0});
    } else if (type == 2) {
      const int open = open_[uuid]--;
      ASSERT_GE(open, 1);
      Slice* slice = &slices[uuid].back();
      while (slice->end != 0) --slice;  // one within it has ended before
      slice->end = timestamp;
      EXPECT_GE(timestamp, slice->begin);
    } else {
      EXPECT_EQ(type, 4);
      counters[uuid].push_back(value);
    }
  }

  std::map<std::uint64_t, int> open_;
};

}  // namespace plumbline::test
