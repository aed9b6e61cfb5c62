/* Who owns a job: one job, workers that want it, rescuers that take it from the dead, and a network that loses, delays and
   doubles their requests.

   There is no clock: a lease may pass its expiry at any moment, and whoever does nothing for a while is frozen. Faults are
   counted down from FAULTS, wherever they strike; everything else happens in every order. What changes nothing is left out: a
   beat of a lease that is far from its expiry, an audit that finds nothing. An answer needs no message of its own, because
   nothing but its receiver waits for it: it comes with the step that makes it, or never.

   A claim is named by its place in the list of claims. The store compares tokens (SAME), the assertions compare names:
   so they see a write of a former owner, whatever the store believes. With -DFAILOVER the store once, at any moment, forgets
   its newest writes. The name of a mutant as -D takes one guard out; checks.toml says which. */

#ifndef FAULTS
#define FAULTS 3
#endif
#ifndef RESCUERS
#define RESCUERS 2
#endif
#define WORKERS 2
#define LEASES 6
#define CLAIMS 6
#define MAX_FAILURES 2
#define MAX_CRASHES 2

/* The job is in one place. */
#define PENDING 0
#define CLAIMED 1
#define RUNNING 2
#define COMPLETED 3
#define FAILED 4
#define IS_ACTIVE (place == CLAIMED || place == RUNNING)
#define IS_FINISHED (place >= COMPLETED)

/* What moves it, and what the sender of a write is told. */
#define DONE 1
#define RETRY 2
#define RELEASE 3
#define CRASH 4
#define LOST 0
#define APPLIED 1

/* A lease is unknown (0), alive or ended. Why it ended says whether running jobs pay. Who only sees it past its expiry
   (SILENT) may end it, at the charge of those jobs, while it has not changed since. Nobody renews the lease of a dead worker:
   it passes its expiry by time alone. */
#define ALIVE 1
#define ENDED 2
#define CHARGED 1
#define FREE 2
#define SILENT 3

/* Where a worker is: it holds a job from HAVE on, runs its code in CODE, and has an outcome to deliver in OVER. READ is for the
   mutant that looks before it takes. */
#define OFF 0
#define OPENING 1
#define IDLE 2
#define READ 3
#define HAVE 4
#define CODE 5
#define OVER 6

/* Where a rescuer is. */
#define SEEK 0
#define END 1
#define LOOK 2
#define MOVE 3

/* Requests of which a copy may be under way. */
#define NONE 0
#define OPEN 1
#define BEAT 2
#define CLAIM 3
#define START 4
#define REPORT 5
#define SETTLE 6
#define RESCUE 7
#define CLOSE 8

typedef ClaimRow { byte call; byte number; byte lease; byte recorded; byte moved; bit ran }
typedef LeaseRow { byte state; byte reason; bit overdue; bit dead; bit worker }

/* The store: the row, attempt records (claims[].recorded), leases. */
byte place, owner, number, failures, crashes, said;
ClaimRow claims[CLAIMS + 1];
LeaseRow leases[LEASES + 1];

/* The workers: their leases, the claims they hold, those that an audit found and that are to go back unrun. */
byte lease_of[WORKERS], held[WORKERS], back[WORKERS];

/* The rescuers: the lease each looks at, whether nobody renewed it since, and the claim to be moved. */
byte seen[RESCUERS], judged[RESCUERS];
bit is_unchanged[RESCUERS];

/* The request of which a copy is under way. */
byte copy_kind, copy_subject, copy_detail;
bit copy_is_unchanged;

byte faults = FAULTS;
byte last_number;

/* Of the request under way; without meaning between two steps. */
byte answer, call, i, name;
bit is_applied, is_heard, is_copied;

#ifdef FAILOVER
typedef Snapshot { byte place; byte owner; byte number; byte failures; byte crashes; byte said;
                   byte recorded[CLAIMS + 1]; byte moved[CLAIMS + 1]; byte state[LEASES + 1]; byte reason[LEASES + 1] }
Snapshot old;
byte failover;
#define KEEPS_WRITES (failover < 2)
#define IS_OLD(k) (old.owner == k)
#define OLD_NUMBER_TOO \
    if :: failover == 1 -> name = (old.number < name -> old.number : name); old.number = old.number - name :: else fi;
#define FORGET_OLD_CLAIM old.recorded[i] = 0; old.moved[i] = 0
#define FORGET_OLD_LEASE old.state[i] = 0; old.reason[i] = 0
#else
#define KEEPS_WRITES true
#define IS_OLD(k) false
#define OLD_NUMBER_TOO
#define FORGET_OLD_CLAIM skip
#define FORGET_OLD_LEASE skip
#endif

/* --- guards, each with what its mutants put in its place */

#define SAME_CALL(a, b) (claims[a].call == claims[b].call)
#define SAME_NUMBER(a, b) (claims[a].number == claims[b].number)
#define SAME_LEASE(a, b) (claims[a].lease == claims[b].lease)
#define SAME_WORKER(a, b) (leases[claims[a].lease].worker == leases[claims[b].lease].worker)
#define IS_ALIVE(l) (leases[l].state == ALIVE)
#define HAS_ENDED(l) (!IS_ALIVE(l) || leases[l].overdue || leases[l].dead)
#define IS_CHARGED(l) (place == RUNNING && leases[l].reason == CHARGED)

#if defined(TOKEN_WITHOUT_CLAIM_ID)
#define SAME(a, b) SAME_NUMBER(a, b)
#elif defined(TOKEN_OF_NUMBER_AND_LEASE)
#define SAME(a, b) (SAME_NUMBER(a, b) && SAME_LEASE(a, b))
#elif defined(TOKEN_WITHOUT_NUMBER)
#define SAME(a, b) SAME_CALL(a, b)
#else
#define SAME(a, b) (SAME_CALL(a, b) && SAME_NUMBER(a, b))
#endif
#define IS_OWNED_BY(k) (IS_ACTIVE && SAME(owner, k))

#if defined(SETTLE_BY_ID)
#define MAY_SETTLE(k) (place != PENDING)
#elif defined(SETTLE_BY_STATE)
#define MAY_SETTLE(k) (place == RUNNING)
#elif defined(SETTLE_BY_WORKER)
#define MAY_SETTLE(k) (IS_ACTIVE && SAME_WORKER(owner, k))
#elif defined(SETTLE_BY_LEASE)
#define MAY_SETTLE(k) (IS_ACTIVE && SAME_LEASE(owner, k))
#else
#define MAY_SETTLE(k) IS_OWNED_BY(k)
#endif

#if defined(RESCUE_WITHOUT_TOKEN)
#define MAY_RESCUE(k) IS_ACTIVE
#elif defined(MOVE_BEFORE_END)
#define MAY_RESCUE(k) IS_OWNED_BY(k)
#else
#define MAY_RESCUE(k) (IS_OWNED_BY(k) && !IS_ALIVE(claims[owner].lease))
#endif

#if defined(START_BY_STATE)
#define MAY_START(k) (IS_ACTIVE && IS_ALIVE(claims[owner].lease))
#elif defined(START_OF_ENDED_LEASE)
#define MAY_START(k) IS_OWNED_BY(k)
#else
#define MAY_START(k) (IS_OWNED_BY(k) && IS_ALIVE(claims[owner].lease))
#endif

#if defined(REPORT_UNFENCED)
#define MAY_REPORT(k) IS_ACTIVE
#else
#define MAY_REPORT(k) IS_OWNED_BY(k)
#endif

#if defined(OPEN_REVIVES)
#define MAY_OPEN(l) true
#else
#define MAY_OPEN(l) (leases[l].state != ENDED)
#endif

#if defined(BEAT_REVIVES)
#define MAY_BEAT(l) (leases[l].state != 0)
#else
#define MAY_BEAT(l) IS_ALIVE(l)
#endif

#if defined(END_WITHOUT_JUDGING)
#define MAY_END(l, why, is_fresh) true
#else
#define MAY_END(l, why, is_fresh) (why != SILENT || (is_fresh && (leases[l].overdue || leases[l].dead)))
#endif

#if defined(CLAIM_FOR_ENDED_LEASE)
#define MAY_CLAIM(l) (leases[l].state != 0)
#else
#define MAY_CLAIM(l) (IS_ALIVE(l) && !leases[l].overdue)
#endif

#if defined(CLAIM_NOT_ATOMIC)
#define IS_CLAIMABLE (!IS_FINISHED)
#else
#define IS_CLAIMABLE (place == PENDING)
#endif

#if defined(SETTLE_NOT_IDEMPOTENT)
#define IS_REPEATED(k, what) false
#else
#define IS_REPEATED(k, what) (claims[k].recorded == what || (IS_FINISHED && owner == k && said == what))
#endif

#if defined(NO_AUDIT)
#define IS_AUDIT_DUE false
#elif defined(AUDIT_ONLY_IN_DOUBT)
#define IS_AUDIT_DUE doubt
#else
#define IS_AUDIT_DUE (doubt || (IS_MINE && owner != held[w]))
#endif
#define IS_MINE (IS_ACTIVE && claims[owner].lease == lease_of[w])

#if defined(AUDIT_RELEASES_SETTLING)
#define IS_KNOWN (owner == held[w] && phase != OVER)
#else
#define IS_KNOWN (owner == held[w])
#endif

/* --- verbs of the store: one step each */

inline open_lease(l) {
    if
    :: MAY_OPEN(l) ->
        assert(leases[l].state != ENDED);                                   /* S3: an ended lease never opens again */
        leases[l].state = ALIVE; renew(l); answer = APPLIED
    :: else -> answer = LOST
    fi
}

inline beat(l) {
    if
    :: MAY_BEAT(l) ->
        assert(leases[l].state != ENDED);                                   /* S3: the beat of a former owner changes nothing */
        leases[l].state = ALIVE; renew(l); answer = APPLIED
    :: else -> answer = LOST
    fi
}

/* Who saw the lease before has not seen it as it is now. */
inline renew(l) {
    leases[l].overdue = 0;
    for (i : 0 .. RESCUERS - 1) { if :: seen[i] == l -> is_unchanged[i] = 0 :: else fi }
    if :: copy_kind == CLOSE && copy_subject == l -> copy_is_unchanged = 0 :: else fi
}

/* Answers the reason that stands, 0 if the lease lives on. */
inline end_lease(l, why, is_fresh) {
    if
    :: leases[l].state == ENDED -> answer = leases[l].reason
    :: leases[l].state != ENDED && MAY_END(l, why, is_fresh) ->
        assert(leases[l].overdue || leases[l].dead);    /* S5: only expired leases, or those of the dead, end */
        leases[l].state = ENDED; leases[l].overdue = 0;
        leases[l].reason = (why == FREE -> FREE : CHARGED);
        answer = leases[l].reason
    :: else -> answer = 0
    fi
}

/* Answers the claim's name, 0 for none. Born running, or prefetched and started later. */
inline claim_job(c, l) {
    if
    :: IS_CLAIMABLE && MAY_CLAIM(l) ->
        assert(place == PENDING);                                           /* S1: nobody owns what is claimed */
        assert(IS_ALIVE(l));                                                /* S5: an ended lease claims nothing */
        number++;
        assert(number > last_number || !KEEPS_WRITES);                      /* S2: its number grows: others may fence by it */
        last_number = number;
        name = 1;
        do
        :: name <= CLAIMS && !(claims[name].call == c && claims[name].number == number) -> name++
        :: else -> break
        od;
        if
        :: name > CLAIMS -> name = 1; do :: name <= CLAIMS && claims[name].call != 0 -> name++ :: else -> break od
        :: else -> assert(!KEEPS_WRITES)                                    /* S2: a token never comes again */
        fi;
        assert(name <= CLAIMS);
        claims[name].call = c; claims[name].number = number; claims[name].lease = l;
        owner = name;
        if :: place = CLAIMED :: place = RUNNING fi;
        answer = name; name = 0
    :: else -> answer = 0
    fi
}

inline start(k) {
    if
    :: MAY_START(k) ->
        assert(owner == k);                                                 /* S3: the start of a former owner changes nothing */
        place = RUNNING; answer = APPLIED
    :: else -> answer = LOST
    fi
}

inline report(k) {
    if
    :: MAY_REPORT(k) -> assert(owner == k)                                  /* S3: the report of a former owner changes nothing */
    :: else
    fi
}

inline settle(k, what) {
    if
    :: MAY_SETTLE(k) -> assert(owner == k); move(what)                      /* S3: the settle of a former owner changes nothing */
    :: else -> answer = (IS_REPEATED(k, what) -> APPLIED : LOST)
    fi
}

inline rescue(k, what) {
    if
    :: MAY_RESCUE(k) ->
        assert(owner == k);                                                 /* S3: the move of a late rescuer changes nothing */
        assert(HAS_ENDED(claims[k].lease));                                 /* S5: no claim of a living lease is moved */
        assert((what == CRASH) == IS_CHARGED(claims[k].lease) || !KEEPS_WRITES);  /* S9: the end of the lease says who pays */
        move(what)
    :: else -> answer = (IS_REPEATED(k, what) -> APPLIED : LOST)
    fi
}

inline move(what) {
    assert(claims[owner].moved == 0);                                       /* S10: a token moves its job once */
    claims[owner].moved = what;
    said = what;
    if
    :: what == DONE -> place = COMPLETED
    :: what == RELEASE -> claims[owner].recorded = what; wait()
    :: what == RETRY -> claims[owner].recorded = what; failures++;
        if :: failures == MAX_FAILURES -> place = FAILED :: else -> wait() fi
    :: what == CRASH -> claims[owner].recorded = what; crashes++;
        if :: crashes == MAX_CRASHES -> place = FAILED :: else -> wait() fi
    fi;
    answer = APPLIED
}

inline wait() { place = PENDING; owner = 0; said = 0 }

inline reopen() {
#ifndef REOPEN_FORGETS_TOKEN
    claims[owner].recorded = said;
#endif
    failures = 0; crashes = 0; wait();
#ifdef REOPEN_RESETS_NUMBER
    number = 0
#endif
}

/* --- the network */

/* What becomes of a request: applied and answered, or a fault; a copy that stays behind is applied at any later moment. */
#define SEND(verb, kind_of_it, subject_of_it, detail_of_it, is_fresh) \
    fate(); \
    if :: is_applied -> verb :: else fi; \
    if \
    :: is_copied -> \
        copy_kind = kind_of_it; copy_subject = subject_of_it; copy_detail = detail_of_it; copy_is_unchanged = is_fresh \
    :: else \
    fi

inline fate() {
    is_applied = 1; is_heard = 1; is_copied = 0;
    if
    :: true
    :: faults > 0 -> faults--; is_heard = 0
    :: faults > 0 -> faults--; is_heard = 0; is_applied = 0
    :: faults > 0 && copy_kind == NONE -> faults--; is_heard = 0; is_applied = 0; is_copied = 1
    :: faults > 0 && copy_kind == NONE -> faults--; is_copied = 1
    fi
}

/* Claims that nobody can name any more, and leases of dead workers that nobody can, give their names away: else each history
   would be a state of its own, and there would be too many. */
#define IS_CLAIM_COPIED(k) (copy_kind >= START && copy_kind <= RESCUE && copy_subject == k)
#define IS_LEASE_COPIED(l) ((copy_kind == OPEN || copy_kind == BEAT || copy_kind == CLOSE) && copy_subject == l)
#define IS_NAMED(k) (owner == k || IS_CLAIM_COPIED(k) || held[0] == k || held[1] == k || back[0] == k || back[1] == k \
    || judged[0] == k || judged[RESCUERS - 1] == k || IS_OLD(k))
#define HAS_CLAIM(l) (claims[1].lease == l || claims[2].lease == l || claims[3].lease == l || claims[4].lease == l \
    || claims[5].lease == l || claims[6].lease == l)
#define IS_LEASE_NAMED(l) (IS_LEASE_COPIED(l) || (copy_kind == CLAIM && copy_detail == l) || lease_of[0] == l \
    || lease_of[1] == l || seen[0] == l || seen[RESCUERS - 1] == l || HAS_CLAIM(l))
#define IS_CALLED(c) (claims[1].call == c || claims[2].call == c || claims[3].call == c || claims[4].call == c \
    || claims[5].call == c || claims[6].call == c || (copy_kind == CLAIM && copy_subject == c))

inline tidy() {
    d_step {
        answer = 0; is_applied = 0; is_heard = 0; is_copied = 0; name = 0; call = 0;
        for (i : 1 .. CLAIMS) {
            if
            :: !IS_NAMED(i) ->
                claims[i].call = 0; claims[i].number = 0; claims[i].lease = 0;
                claims[i].recorded = 0; claims[i].moved = 0; claims[i].ran = 0; FORGET_OLD_CLAIM
            :: else
            fi
        }
        for (i : 1 .. LEASES) {
            if
            :: leases[i].dead && !IS_LEASE_NAMED(i) ->
                leases[i].state = 0; leases[i].reason = 0; leases[i].overdue = 0; leases[i].dead = 0; leases[i].worker = 0;
                FORGET_OLD_LEASE
            :: else
            fi
        }
        /* Only how numbers compare counts: the smallest becomes 1. */
        name = number;
        for (i : 1 .. CLAIMS) { name = (claims[i].number && claims[i].number <= name -> claims[i].number - 1 : name) }
        OLD_NUMBER_TOO
        for (i : 1 .. CLAIMS) { claims[i].number = (claims[i].number -> claims[i].number - name : 0) }
        number = number - name; last_number = last_number - name;
        i = 0; name = 0
    }
}

inline new_lease() {
    i = 1;
    do :: i <= LEASES && (leases[i].state != 0 || leases[i].dead || IS_LEASE_NAMED(i)) -> i++ :: else -> break od;
    assert(i <= LEASES);
    lease_of[w] = i; leases[i].worker = w
}

inline new_call() {
    name = 1;
    do :: IS_CALLED(name) -> name++ :: else -> break od
}

inline arrive() { copy_kind = NONE; copy_subject = 0; copy_detail = 0; copy_is_unchanged = 0; tidy() }

active proctype Network() {
end:
    do
    :: atomic { copy_kind == OPEN -> open_lease(copy_subject); arrive() }
    :: atomic { copy_kind == BEAT -> beat(copy_subject); arrive() }
    :: atomic { copy_kind == CLAIM -> claim_job(copy_subject, copy_detail); arrive() }
    :: atomic { copy_kind == START -> start(copy_subject); arrive() }
    :: atomic { copy_kind == REPORT -> report(copy_subject); arrive() }
    :: atomic { copy_kind == SETTLE -> settle(copy_subject, copy_detail); arrive() }
    :: atomic { copy_kind == RESCUE -> rescue(copy_subject, copy_detail); arrive() }
    :: atomic { copy_kind == CLOSE -> end_lease(copy_subject, copy_detail, copy_is_unchanged); arrive() }
    od
}

/* --- workers and their supervisors */

inline vanish() {
    leases[lease_of[w]].dead = 1;
    phase = OFF; lease_of[w] = 0; held[w] = 0; outcome = 0; back[w] = 0; doubt = 0; gone = 0
}

/* Its hold is over; who was told that its lease has ended goes with it. */
inline let_go() {
    held[w] = 0; outcome = 0;
    if :: gone -> vanish() :: else -> phase = IDLE fi
}

inline take() {
    if
    :: !is_heard -> doubt = 1; phase = IDLE
    :: is_heard && answer == 0 -> phase = IDLE
    :: else -> held[w] = answer;
        if :: place == RUNNING -> begin() :: else -> phase = HAVE fi
    fi
}

inline begin() { phase = CODE; claims[held[w]].ran = 1 }

inline hear_settled() {
    if
    :: is_heard ->
        assert((answer == APPLIED) == (claims[held[w]].moved == outcome));        /* S10: its sender is told what became of it */
        assert(answer == APPLIED || !IS_ALIVE(lease_of[w]) || !KEEPS_WRITES);   /* S1: a job is lost by the end of a lease only */
        let_go()
    :: else -> doubt = 1
#ifdef UNKNOWN_SETTLE_DROPPED
        ; let_go()
#endif
    fi
}

inline audit() {
    doubt = 0;
    if
    :: IS_MINE && !IS_KNOWN ->
        assert(!claims[owner].ran || !KEEPS_WRITES);                        /* L8: what is given back unrun has not run */
        back[w] = owner
    :: else
    fi
}

proctype Worker(bit w) {
    byte phase, outcome;
    bit doubt, gone;
end:
    do
    :: atomic { phase == OFF && !IS_FINISHED ->
        new_lease(); phase = OPENING; tidy() }
    :: atomic { phase == OPENING ->
        SEND(open_lease(lease_of[w]), OPEN, lease_of[w], 0, 0);
        if :: is_heard && answer == APPLIED -> phase = IDLE :: is_heard && answer == LOST -> vanish() :: else fi;
        tidy() }
    :: atomic { phase >= IDLE && !gone && (leases[lease_of[w]].overdue || !IS_ALIVE(lease_of[w])) ->
        SEND(beat(lease_of[w]), BEAT, lease_of[w], 0, 0);
        if
        :: is_heard && answer == LOST -> gone = 1; back[w] = 0;
            if :: phase != OVER -> vanish() :: else fi                    /* an outcome is delivered all the same */
        :: else
        fi;
        tidy() }
#ifdef CLAIM_NOT_ATOMIC
    :: atomic { phase == IDLE && !doubt && !back[w] && place == PENDING -> phase = READ }
    :: atomic { phase == READ ->
#else
    :: atomic { phase == IDLE && !doubt && !back[w] && place == PENDING && MAY_CLAIM(lease_of[w]) ->
#endif
        new_call(); call = name;
        SEND(claim_job(call, lease_of[w]), CLAIM, call, lease_of[w], 0);
        take(); tidy() }
    :: atomic { phase == IDLE && !doubt && !back[w] && copy_kind == NONE && faults > 0 ->     /* in vain, and late */
        faults--; new_call(); copy_kind = CLAIM; copy_subject = name; copy_detail = lease_of[w]; doubt = 1; tidy() }
    :: atomic { phase == HAVE ->
        SEND(start(held[w]), START, held[w], 0, 0);
        if :: is_heard && answer == APPLIED -> begin() :: is_heard && answer == LOST -> let_go() :: else fi;
        tidy() }
    :: atomic { phase == CODE && copy_kind == NONE && faults > 0 -> faults--; copy_kind = REPORT; copy_subject = held[w] }
    :: atomic { phase == CODE && !IS_OWNED_BY(held[w]) -> let_go(); tidy() }         /* a report or an audit said so */
    :: atomic { phase == CODE -> phase = OVER; if :: outcome = DONE :: outcome = RETRY fi }
    :: atomic { phase == CODE && faults > 0 -> faults--; phase = OVER; outcome = RELEASE }           /* cut short */
    :: atomic { phase == OVER ->
        SEND(settle(held[w], outcome), SETTLE, held[w], outcome, 0);
        hear_settled(); tidy() }
    :: atomic { phase >= IDLE && !gone && !back[w] && IS_AUDIT_DUE -> audit(); tidy() }
#ifdef NO_AUDIT
    :: atomic { doubt -> doubt = 0 }
#endif
    :: atomic { back[w] != 0 ->
        SEND(settle(back[w], RELEASE), SETTLE, back[w], RELEASE, 0);
        if :: is_heard -> back[w] = 0 :: else -> doubt = 1 fi;
        tidy() }
    :: atomic { phase == IDLE && !doubt && !back[w] && faults > 0 -> faults--;                   /* a graceful end */
        leases[lease_of[w]].dead = 1;
        SEND(end_lease(lease_of[w], FREE, 0), CLOSE, lease_of[w], FREE, 0);
        vanish(); tidy() }
    :: atomic { phase != OFF && faults > 0 -> faults--; vanish(); tidy() }                                 /* kill -9 */
    :: atomic { phase != OFF && IS_ALIVE(lease_of[w]) && !leases[lease_of[w]].overdue && faults > 0 ->  /* frozen or cut off */
        faults--; leases[lease_of[w]].overdue = 1 }
    od
}

/* --- rescuers */

#define HOLDS(l) (IS_ACTIVE && claims[owner].lease == l)

inline seek() { stage = SEEK; seen[r] = 0; why = 0; is_unchanged[r] = 0; judged[r] = 0; what = 0 }

inline judge(l, reason) {
    seen[r] = l; why = reason; is_unchanged[r] = 1;
#ifdef MOVE_BEFORE_END
    stage = LOOK
#else
    stage = END
#endif
}

#define CONSIDER(l) \
    :: atomic { stage == SEEK && IS_ALIVE(l) && (leases[l].overdue || leases[l].dead) -> judge(l, SILENT) } \
    :: atomic { stage == SEEK && leases[l].state != ENDED && leases[l].dead -> \
        if :: judge(l, CHARGED) :: judge(l, FREE) fi }

proctype Rescuer(bit r) {
    byte stage, why, what;
end:
    do
#ifndef NO_RESCUE
    CONSIDER(1) CONSIDER(2) CONSIDER(3) CONSIDER(4) CONSIDER(5) CONSIDER(6)
#ifndef ENDED_LEASES_FORGOTTEN
    :: atomic { stage == SEEK && IS_ACTIVE && !IS_ALIVE(claims[owner].lease) ->
        seen[r] = claims[owner].lease; stage = LOOK;
        why = (leases[seen[r]].state == ENDED -> leases[seen[r]].reason : CHARGED) }
#endif
#endif
    :: atomic { stage == END ->
        SEND(end_lease(seen[r], why, is_unchanged[r]), CLOSE, seen[r], why, is_unchanged[r]);
        if
        :: is_heard && answer != 0 -> stage = LOOK; is_unchanged[r] = 0;
#ifdef OWN_REASON_APPLIED
            why = (why == FREE -> FREE : CHARGED)
#else
            why = answer
#endif
        :: else -> seek()
        fi;
        tidy() }
    :: atomic { stage == LOOK ->
        if
        :: HOLDS(seen[r]) -> judged[r] = owner; stage = MOVE;
#ifdef CRASH_NOT_COUNTED
            what = RELEASE
#else
            what = (place == RUNNING && why == CHARGED -> CRASH : RELEASE)
#endif
        :: else -> seek(); tidy()
        fi }
    :: atomic { stage == MOVE ->
        SEND(rescue(judged[r], what), RESCUE, judged[r], what, 0);
        seek(); tidy() }
    od
}

/* --- everybody else */

/* An operator asks for the job once more. */
#ifdef OPERATOR
active proctype Operator() {
end:
    atomic { IS_FINISHED -> reopen(); tidy() }
}
#endif

#ifdef FAILOVER
active proctype Failover() {
    atomic {
        failover = 1;
        old.place = place; old.owner = owner; old.number = number;
        old.failures = failures; old.crashes = crashes; old.said = said;
        for (i : 1 .. CLAIMS) { old.recorded[i] = claims[i].recorded; old.moved[i] = claims[i].moved }
        for (i : 1 .. LEASES) { old.state[i] = leases[i].state; old.reason[i] = leases[i].reason }
        i = 0
    }
    atomic {
        failover = 2;
        place = old.place; owner = old.owner; number = old.number;
        failures = old.failures; crashes = old.crashes; said = old.said;
        old.place = 0; old.owner = 0; old.number = 0; old.failures = 0; old.crashes = 0; old.said = 0;
        for (i : 1 .. CLAIMS) {
            claims[i].recorded = old.recorded[i]; claims[i].moved = old.moved[i]; old.recorded[i] = 0; old.moved[i] = 0
        }
        for (i : 1 .. LEASES) {
            leases[i].state = old.state[i]; leases[i].reason = old.reason[i]; old.state[i] = 0; old.reason[i] = 0
        }
        tidy()
    }
}
#endif

/* When nobody has anything left to do. */
active proctype Watch() {
    timeout -> assert(IS_FINISHED)                                          /* S6, L2: no job is lost, none is stuck */
}

init {
    atomic {
        byte p;
        for (p : 0 .. WORKERS - 1) { run Worker(p) }
        for (p : 0 .. RESCUERS - 1) { run Rescuer(p) }
        p = 0
    }
}
