/* `plimsoll doctor`: the findings as a page or as JSON. */
#include "cli/cli.h"

#include "cli/findings.h"
#include "cli/output.h"

typedef struct tier_row {
    plim_tier tier;
    const char *by;
    void (*check)(finding *out);
    bool has_provider;
    finding found;
} tier_row;

typedef struct machine_row {
    const char *name, *label;
    void (*check)(finding *out);
    finding found;
} machine_row;

typedef struct findings {
    tier_row tiers[4];
    machine_row machine[3];
} findings;

static const findings nothing_looked_at = {
    {
#define X(tier, by, check, has_provider) {PLIM_TIER_##tier, by, check, has_provider, {0}},
        FINDING_TIERS(X)
#undef X
    },
    {
#define X(name, label, check) {name, label, check, {0}},
        FINDING_MACHINE(X)
#undef X
    },
};

static bool offered(const tier_row *row)
{
    return row->has_provider && row->found.state == FINDING_WORKS;
}

/* A tier without a provider is not offered, whatever the machine has. */
static void add_missing_provider(finding *found)
{
    char change[sizeof(found->change)];
    snprintf(change, sizeof(change), "%s", found->change);
    snprintf(found->change, sizeof(found->change),
             "%.200s%s plimsoll %s has no provider that uses it",
             change[0] ? change : "nothing on this machine", change[0] ? "; even then," : ":",
             plim_version());
}

static void look(findings *out)
{
    *out = nothing_looked_at;
    for (size_t i = 0; i < PLIM_COUNT(out->tiers); i++) {
        tier_row *row = &out->tiers[i];
        row->check(&row->found);
        if (!row->has_provider)
            add_missing_provider(&row->found);
    }
    for (size_t i = 0; i < PLIM_COUNT(out->machine); i++)
        out->machine[i].check(&out->machine[i].found);
}

/* ---- as a page ---- */

static const char *mark_of(bool good, cli_terminal terminal)
{
    if (terminal == CLI_TERMINAL_UTF8)
        return good ? "\xE2\x9C\x93 " : "\xE2\x9C\x97 ";
    return good ? "ok" : "no";
}

enum { PAGE_INDENT = 32 };

static void add_change(base_buf *page, const char *change)
{
    if (change[0])
        base_buf_printf(page, "%*schange: %s\n", PAGE_INDENT, "", change);
}

static void add_tier(base_buf *page, const tier_row *row, cli_terminal terminal)
{
    base_buf_printf(page, "  %s %-10s%-17s%s\n", mark_of(offered(row), terminal),
                    plim_tier_name(row->tier), row->by, row->found.evidence);
    add_change(page, row->found.change);
}

static int print_page(const findings *all, cli_terminal terminal)
{
    _cleanup_buf_ base_buf page = BASE_BUF_INIT(65536);
    base_buf_printf(&page, "Tiers that plimsoll %s can offer on this machine, weakest first\n",
                    plim_version());
    for (size_t i = 0; i < PLIM_COUNT(all->tiers); i++)
        add_tier(&page, &all->tiers[i], terminal);
    base_buf_add_text(&page, "\nWhat the machine has\n");
    for (size_t i = 0; i < PLIM_COUNT(all->machine); i++) {
        const machine_row *row = &all->machine[i];
        base_buf_printf(&page, "  %s %-27s%s\n", mark_of(row->found.state != FINDING_NO, terminal),
                        row->label, row->found.evidence);
        add_change(&page, row->found.change);
    }
    base_buf_add_text(&page, "\nA tier is configuration, evidence and a startup test; it is not "
                             "attestation.\n");
    return cli_print(&page);
}

/* ---- as JSON ---- */

static const char *state_name(finding_state state)
{
    static const char *const names[] = {
        [FINDING_NO] = "no", [FINDING_SEEN] = "seen", [FINDING_WORKS] = "works"};
    return names[state];
}

static json_t *finding_json(const finding *found)
{
    return json_pack("{s:s, s:o, s:o}", "state", state_name(found->state), "evidence",
                     cli_json_text(plim_bytes_of(found->evidence)), "change",
                     cli_json_text(plim_bytes_of(found->change)));
}

static json_t *tier_json(const tier_row *row)
{
    json_t *object = json_pack("{s:s, s:s, s:b, s:b}", "tier", plim_tier_name(row->tier), "by",
                               row->by, "offered", offered(row), "has_provider", row->has_provider);
    json_t *found = finding_json(&row->found);
    bool whole = object && found && json_object_update(object, found) == 0;
    json_decref(found);
    if (whole)
        return object;
    json_decref(object);
    return NULL;
}

static int print_json(const findings *all)
{
    json_t *tiers = json_array(), *machine = json_object();
    bool good = true;
    for (size_t i = 0; i < PLIM_COUNT(all->tiers); i++)
        good &= json_array_append_new(tiers, tier_json(&all->tiers[i])) == 0;
    for (size_t i = 0; i < PLIM_COUNT(all->machine); i++)
        good &= json_object_set_new(machine, all->machine[i].name,
                                    finding_json(&all->machine[i].found)) == 0;
    json_t *object =
        json_pack("{s:s, s:o, s:o}", "version", plim_version(), "tiers", tiers, "machine", machine);
    if (good)
        return cli_print_json(object);
    json_decref(object);
    return cli_print_json(NULL);
}

/* ---- the verb ---- */

static bool any_offered(const findings *all)
{
    for (size_t i = 0; i < PLIM_COUNT(all->tiers); i++)
        if (offered(&all->tiers[i]))
            return true;
    return false;
}

int cli_doctor(int argc, char **argv)
{
    cli_options options;
    int status;
    if (!cli_begin(argc, argv, &options, &status))
        return status;
    findings all;
    look(&all);
    status = options.json ? print_json(&all) : print_page(&all, cli_terminal_of(STDOUT_FILENO));
    return status ? status : any_offered(&all) ? CLI_EXIT_OK : CLI_EXIT_OTHERWISE;
}
