#include "core/profile/nvtx_actions.hpp"

#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtPayload.h>

#include <array>
#include <cstddef>
#include <string>
#include <vector>

namespace plumbline {
namespace {

struct Payload {
  std::uint32_t type;
  std::uint32_t stage;
  std::uint32_t chunk;
  std::uint32_t microbatch;
  std::uint64_t bytes;
};

nvtxPayloadSchemaEntry_t entry(std::uint64_t type, const char* name, std::size_t offset) {
  nvtxPayloadSchemaEntry_t entry{};
  entry.type = type;
  entry.name = name;
  entry.offset = offset;
  return entry;
}

std::uint64_t register_schema(nvtxDomainHandle_t domain) {
  const std::array<nvtxPayloadSchemaEntry_t, 5> entries = {
      entry(NVTX_PAYLOAD_ENTRY_TYPE_UINT32, "type", offsetof(Payload, type)),
      entry(NVTX_PAYLOAD_ENTRY_TYPE_UINT32, "stage", offsetof(Payload, stage)),
      entry(NVTX_PAYLOAD_ENTRY_TYPE_UINT32, "chunk", offsetof(Payload, chunk)),
      entry(NVTX_PAYLOAD_ENTRY_TYPE_UINT32, "microbatch", offsetof(Payload, microbatch)),
      entry(NVTX_PAYLOAD_ENTRY_TYPE_UINT64, "bytes", offsetof(Payload, bytes))};
  nvtxPayloadSchemaAttr_t schema{};
  schema.fieldMask = NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NAME | NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_TYPE |
                     NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ENTRIES | NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NUM_ENTRIES |
                     NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_STATIC_SIZE;
  schema.name = "action";
  schema.type = NVTX_PAYLOAD_SCHEMA_TYPE_STATIC;
  schema.entries = entries.data();
  schema.numEntries = entries.size();
  schema.payloadStaticSize = sizeof(Payload);
  return nvtxPayloadSchemaRegister(domain, &schema);
}

}  // namespace

struct NvtxActions::Domain {
  nvtxDomainHandle_t handle = nvtxDomainCreateA("plumbline");
  std::uint64_t schema = register_schema(handle);
  std::array<nvtxStringHandle_t, kActionTypes> names{};
  std::vector<std::uint32_t> chunk_of_stage;

  Domain() {
    for (int i = 0; i < kActionTypes; ++i) {
      const std::string name(name_of(static_cast<ActionType>(i)));
      names[static_cast<std::size_t>(i)] = nvtxDomainRegisterStringA(handle, name.c_str());
    }
  }
  ~Domain() { nvtxDomainDestroy(handle); }
  Domain(const Domain&) = delete;
  Domain& operator=(const Domain&) = delete;
};

NvtxActions::NvtxActions(const Schedule& schedule, int pipeline_rank) : domain_(std::make_unique<Domain>()) {
  std::uint32_t chunk = 0;
  for (const int rank : schedule.rank_of_stage) {
    domain_->chunk_of_stage.push_back(rank == pipeline_rank ? chunk++ : 0);
  }
}

NvtxActions::~NvtxActions() = default;

void NvtxActions::step_begins(int index) {
  const std::string name = "step " + std::to_string(index);
  nvtxEventAttributes_t event{};
  event.version = NVTX_VERSION;
  event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  event.messageType = NVTX_MESSAGE_TYPE_ASCII;
  event.message.ascii = name.c_str();
  nvtxDomainMarkEx(domain_->handle, &event);
}

void NvtxActions::action_begins(const Action& action, Bytes message) {
  const std::size_t stage = action.stage;
  const Payload payload{static_cast<std::uint32_t>(action.type), action.stage,
                        stage < domain_->chunk_of_stage.size() ? domain_->chunk_of_stage[stage] : 0,
                        action.microbatch, static_cast<std::uint64_t>(message.value)};
  const nvtxPayloadData_t data{domain_->schema, sizeof payload, &payload};
  nvtxEventAttributes_t event{};
  event.version = NVTX_VERSION;
  event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  event.category = static_cast<std::uint32_t>(action.type) + 1;
  event.payloadType = static_cast<std::int32_t>(NVTX_PAYLOAD_TYPE_EXT);
  event.reserved0 = 1;  // how many payloads follow
  event.payload.ullValue = reinterpret_cast<std::uintptr_t>(&data);
  event.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  event.message.registered = domain_->names[static_cast<std::size_t>(action.type)];
  nvtxDomainRangePushEx(domain_->handle, &event);
}

void NvtxActions::action_goes_on(const Action& action) {
  nvtxDomainRangePop(domain_->handle);
  action_begins(action, Bytes{});
}

void NvtxActions::action_ends(const Action& /*action*/) {
  nvtxDomainRangePop(domain_->handle);
}

}  // namespace plumbline
