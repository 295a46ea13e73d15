// The way out: packs what layers save into slabs, copies it, and lets the originals go.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "activation/host_slabs.h"
#include "activation/saved_layer.h"
#include "spillway/core/bytes.h"
#include "spillway/device/device.h"

namespace spillway::activation {

/// Not thread-safe.
///
/// The first time that a layer is seen, its size is known only at its end: then its slab is made,
/// and its copies start. From then on the slab is there at the beginning and each copy starts when
/// the storage is handed over; what exceeds the size goes, at the end, into a second slab.
class Sender {
 public:
  Sender(std::shared_ptr<device::Device> device, std::shared_ptr<HostSlabs> slabs,
         Bytes copy_chunk);

  void begin(std::shared_ptr<SavedLayer> layer);
  void send(SavedEntry& entry);
  /// Throws OutOfMemory; what has no place on the host then stays where it is.
  void end();
  /// Ends a layer that an exception left open: what has no place yet stays.
  void abandon();

  /// Orders the compute stream after the copies of the layers that have ended, except for the last
  /// `num_kept` of them, and lets their originals go.
  void release_all_but(std::size_t num_kept);
  /// The same for one layer, if that is still to do.
  void release(const SavedLayer& layer);
  /// Waits for all copies and clears their error. Throws it.
  void synchronize() { out_.synchronize(); }
  /// True if a release saw a failed copy.
  [[nodiscard]] bool failed() const { return failed_; }
  void forget_failure() { failed_ = false; }

 private:
  void add_slab(Bytes bytes);
  [[nodiscard]] bool place(SavedEntry& entry);
  void copy(SavedEntry& entry);
  void release_now(SavedLayer& layer);

  std::shared_ptr<device::Device> device_;
  std::shared_ptr<HostSlabs> slabs_;
  Bytes copy_chunk_;
  device::Stream out_;
  std::map<int, Bytes> expected_;  // by layer: the most that it saved so far
  std::shared_ptr<SavedLayer> current_;
  Bytes used_;   // of the current slab
  Bytes total_;  // of the current layer
  std::vector<SavedEntry*> waiting_;
  std::deque<std::shared_ptr<SavedLayer>> sent_;  // originals not yet released
  bool failed_ = false;
};

}  // namespace spillway::activation
