// The update of everything that is offloaded, chunk by chunk.
//
// Two ways lead a chunk through a step; they share the link and run side by side.
//
//   streamed   in lane            update stream          out lane
//              states --------->  Adam on the device --> states          then the slot is free
//                        (device slot)
//
//   host       out lane           host threads           in lane
//              gradients ------>  Adam on the host ----> parameters      then the stage is free
//                        (host stage)
//              A chunk of many small parameters is gathered before and scattered after, by a kernel
//              on the update stream, in a device slot.
//
// One thread, the feeder, moves chunks from queue to queue. It looks at the head of each queue:
// if the event of its last work is done and the next place has room, the chunk moves on. Nothing is
// enqueued on the link before it can run, and never more than Lane::kDepth loads a direction, so
// that nobody else's copy waits behind bulk copies. Where nothing can move it sleeps for
// kPollInterval: events cannot call back (a stream that failed would call nobody), and a copy takes
// ten times as long.
//
//              waiting_to_stream_ > fetched_ > updated_ > written_
//   assign() <
//              waiting_for_host_ > gathered_ > staged_ > computed_ > returned_
//
// Prefetching is the left half of the first row before the gradients are there: between
// begin_prefetch() and post() streamed chunks wait in fetched_, in slots beyond the ring as long as
// there is memory for them. post() lets them go on.
//
// A chunk is *published* with the event after which its parameters have their new values; whoever
// reads them waits for that event on a stream, and on the host only until there is one. A chunk is
// busy until its states in host memory are complete again; it starts its next step only then.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <unordered_map>
#include <vector>

#include "optimizer/balancer.h"
#include "optimizer/chunk_tables.h"
#include "optimizer/device_kernels.h"
#include "optimizer/device_slots.h"
#include "optimizer/host_stage.h"
#include "optimizer/lane.h"
#include "optimizer/parameter_set.h"
#include "optimizer/partition.h"
#include "optimizer/prefetch_budget.h"
#include "optimizer/step_preparation.h"
#include "spillway/device/device.h"
#include "spillway/memory/host_arena.h"
#include "spillway/optimizer/host_pool.h"

namespace spillway::optimizer {

/// Owns the offloaded states and the staging. One thread calls; the feeder is its own. What fails
/// in the background is thrown at the next call, and at every later one: some chunks have made the
/// step and some have not, so the states are worth nothing any more.
class ChunkPipeline {
 public:
  /// `host_kernels`, `device_kernels`, `parameters` and `options` outlive the pipeline.
  ChunkPipeline(device::Device& device, DeviceKernels& device_kernels,
                const kernels::HostKernels& host_kernels, const ParameterSet& parameters,
                const OptimizerOptions& options, std::vector<StateBlock> chunks);
  /// Finishes the step in work.
  ~ChunkPipeline();
  ChunkPipeline(const ChunkPipeline&) = delete;
  ChunkPipeline& operator=(const ChunkPipeline&) = delete;

  struct Step {
    std::span<const Gradient> gradients;  ///< by unique parameter; valid until all is published
    const kernels::StepScalars* device_scalars = nullptr;  ///< the same
    device::Event ready;  ///< gradients and device scalars are there
    StepPreparation::HostScalars host;
  };

  /// Until the next post(), states may be brought in ahead of their update: into `most` bytes
  /// beyond the ring, or into what others give up from now on. Memory comes into use only after
  /// what `compute` was given before.
  void begin_prefetch(std::optional<Bytes> most, const device::Stream& compute);

  /// Starts a step. Everything of the one before is published (order_after_all() waits for it).
  void post(const Step& step);

  /// Orders `stream` after the update of the parameters of a layer, or of all. Blocks the host only
  /// until the events are there.
  void order_after_layer(device::Stream& stream, int layer);
  void order_after_all(device::Stream& stream);

  /// Blocks the host while prefetched states, on their way out, occupy what others are about to
  /// need (see RoomKeeper).
  void leave_room();

  /// Blocks until the states in host memory are complete. What was prefetched is dropped, because
  /// the caller may change them.
  void wait_until_idle();

  [[nodiscard]] const std::vector<StateBlock>& chunks() const { return blocks_; }
  /// A chunk's states in host memory; to be touched only while idle.
  [[nodiscard]] std::byte* states(std::size_t chunk) const { return chunks_[chunk].states.data(); }

  [[nodiscard]] Bytes device_staging() const;
  [[nodiscard]] Bytes host_staging() const;
  [[nodiscard]] int host_threads() const { return pool_ ? pool_->num_threads() : 0; }
  /// Device memory that prefetched states occupy beyond the ring.
  [[nodiscard]] Bytes prefetch_bytes() const { return slots_->extra_bytes(); }
  /// Share of the elements that the last step updated on the host.
  [[nodiscard]] double host_share();

 private:
  static constexpr std::chrono::microseconds kPollInterval{20};
  /// While nothing is under way, and only memory for a prefetch may appear.
  static constexpr std::chrono::microseconds kIdlePollInterval{500};
  /// A chunk of more arrays than this crosses the link packed.
  static constexpr std::size_t kMostDirectItems = 4;

  /// Streams that publish: events of one stream are done in order.
  enum class Publisher : unsigned char { kNone, kUpdateStream, kInLane };
  struct Publication {
    bool published = true;
    Publisher by = Publisher::kNone;
    std::int64_t number = 0;
    device::Event event = {};
  };
  struct Chunk {
    std::span<std::byte> states;
    bool busy = false;        // the feeder's
    Publication publication;  // guarded by mutex_
  };
  struct Prefetch {
    PrefetchBudget budget;
    device::Stream compute;
  };
  /// A chunk on its way. Slots and stages are indices.
  struct Load {
    int chunk = 0;
    int slot = DeviceSlots::kNone;
    int stage = -1;
    device::Event event = {};  // of the last work enqueued for it
    std::optional<HostJob> job = {};
  };
  using Queue = std::deque<Load>;

  void reserve_states();
  void allocate_staging();

  // The feeder.
  struct Orders {
    bool drop = false;
    std::optional<Prefetch> prefetch;
    std::optional<Step> step;
  };
  void feed();
  Orders take_orders();
  bool advance();
  void take_prefetch(const Prefetch& prefetch);
  void drop_prefetched();
  void take_step(const Step& step);
  void assign();
  void pass_over_chunks_without_gradient();
  void drop_load(Load& load);
  [[nodiscard]] bool has_gradient(int chunk) const;
  [[nodiscard]] StepTiming count_elements() const;
  [[nodiscard]] const StateBlock& block(int chunk) const {
    return blocks_[static_cast<std::size_t>(chunk)];
  }
  bool is_at_rest() const;
  void fail(std::exception_ptr error);

  bool fetch_states();
  [[nodiscard]] int take_slot();
  bool update_on_device();
  bool write_states_back();
  bool retire_written();

  bool fetch_gradients();
  bool send_gathered();
  bool update_on_host();
  bool return_parameters();
  bool retire_returned();
  void gather(Load& load);
  void scatter(Load& load);
  void move(Load& load, std::span<kernels::MoveItem> items);

  void publish(int chunk, Publisher by, device::Event event);
  void finish(Load& load);
  void observe_step();
  [[nodiscard]] double seconds_since_ready() const;

  // Callers.
  [[nodiscard]] Bytes memory_of_others() const;
  void order_after(device::Stream& stream, std::span<const int> chunks);
  void throw_if_failed() const;

  device::Device& device_;
  DeviceKernels& device_kernels_;
  const kernels::HostKernels& host_kernels_;
  const ParameterSet& parameters_;
  const OptimizerOptions& options_;
  std::vector<StateBlock> blocks_;
  std::unordered_map<int, std::vector<int>> chunks_of_layer_;
  std::vector<int> all_chunks_;

  std::optional<memory::HostArena> arena_;
  device::Buffer host_staging_;
  std::vector<Chunk> chunks_;

  // The caller's own.
  RoomKeeper room_;

  // Shared between callers and the feeder.
  mutable std::mutex mutex_;
  std::condition_variable wake_;     // the feeder waits
  std::condition_variable changed_;  // callers wait
  std::optional<Prefetch> requested_;
  bool drop_requested_ = false;
  std::optional<Step> posted_;
  bool at_rest_ = true;
  bool stopping_ = false;
  std::exception_ptr error_;
  double host_share_ = 0.0;

  // The feeder's own.
  Balancer balancer_;
  std::optional<StepTiming> timing_;  // of the step in work
  std::optional<std::chrono::steady_clock::time_point> ready_at_;
  std::optional<Step> step_;          // in work, or the last one
  std::optional<Prefetch> prefetch_;  // under way: what is fetched waits for the next step
  std::chrono::steady_clock::time_point next_memory_check_;
  std::optional<DeviceSlots> slots_;
  std::optional<ChunkTables> tables_;
  std::vector<HostStage> stages_;
  std::vector<int> free_stages_;
  std::int64_t num_published_;
  Queue waiting_to_stream_, fetched_, updated_, written_;
  Queue waiting_for_host_, gathered_, staged_, computed_, returned_;
  Lane in_;
  Lane out_;
  device::Stream update_stream_;
  std::unique_ptr<HostPool> pool_;

  std::jthread feeder_;  // last: stops before what it uses
};

}  // namespace spillway::optimizer
