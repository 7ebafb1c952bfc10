/*
 * The door of the core: what a request, a result and a refusal are, which limits hold, which
 * settings exist, who is admitted, and what a provider must offer. It knows no HTTP and no
 * protobuf. Requests are borrowed public structs, results own one arena; a gate (gate.h) is shared
 * by threads, everything else belongs to one thread at a time.
 */
#ifndef CORE_CORE_H
#define CORE_CORE_H

#include "base/base.h"

#include <plimsoll/request.h>
#include <plimsoll/result.h>
#include <plimsoll/sandbox.h>

#include "core/model.h"

#include "core/absent.h"
#include "core/address.h"
#include "core/refusal.h"
#include "core/settings.h"
#include "core/validate.h"

#include "core/provider.h"

#include "core/admission.h"

#include "core/gate.h"

#endif
