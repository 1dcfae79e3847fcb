-- pods from: 17
-- Erasing: messages, sessions and users. Rows of messages stay as tombstones, so that seqs have no gaps.
-- erased_at: since then nobody reads or writes the session. erase_count: how many batches of its messages were erased.
alter table fleetline.sessions
  add column erased_at timestamptz,
  add column erase_count int not null default 0;
alter table fleetline.messages add column erased boolean not null default false;

-- The messages of each batch, so that a follower who was away is told of what it missed. A table of its own: an index of the
-- messages would be built by reading all of them, while nobody can write.
create table fleetline.erased_messages (
  session uuid not null,
  tenant int not null,
  batch int not null,
  seq int not null,
  primary key (tenant, session, batch, seq));

-- Pods of the release before do not know erased sessions. `check_violation` counts as a bad value, so they reject the message and store the
-- rest of its batch.
create function fleetline.refuse_erased() returns trigger language plpgsql
  set search_path = pg_catalog, pg_temp as $$
begin
  raise exception 'The session was erased' using errcode = 'check_violation';
end $$;
create trigger refuse_erased before update on fleetline.sessions for each row
  when (old.erased_at is not null
        and (new.head > old.head or (new.turn is not null and new.turn is distinct from old.turn)
             or (new.compacting is not null and new.compacting is distinct from old.compacting)))
  execute function fleetline.refuse_erased();

-- The members of an erased session are removed after it was marked, and the mark raises its version for all of them at once. So their
-- removals need not count one by one.
create or replace function fleetline.count_removal() returns trigger language plpgsql
  security definer set search_path = pg_catalog, pg_temp as $$
begin
  update fleetline.sessions set version = version + old.read_version + 2
   where tenant = old.tenant and id = old.session and erased_at is null;
  return null;
end $$;

-- Requests to erase, and their receipts. During the search for a user's messages, user_id, last_session and last_seq say whose they are and
-- where the search resumes.
create table fleetline.erasures (
  requested_at timestamptz not null default now(),
  done_at timestamptz,
  id uuid not null,
  session uuid,
  last_session uuid,
  tenant int not null,
  seq int,
  last_seq int not null default 0,
  sessions int not null default 0,
  messages int not null default 0,
  memberships int not null default 0,
  kind text not null check (kind in ('message', 'session', 'user')),
  user_id text,
  primary key (tenant, id));
create index on fleetline.erasures (tenant, session) where session is not null;
create index erasures_open on fleetline.erasures (requested_at) where done_at is null;
create unique index erasures_user on fleetline.erasures (tenant, user_id) where user_id is not null;

-- Erased sessions. next_at: when the leader goes on with it. wiped_seq: the content up to this seq is removed. wiped_at: when all content was
-- removed. erasure: the request; null if a
-- rule of retention has expired the session.
create table fleetline.erased_sessions (
  next_at timestamptz not null default now(),
  wiped_at timestamptz,
  session uuid not null,
  erasure uuid,
  tenant int not null,
  wiped_seq int not null default 0,
  primary key (tenant, session));
-- Requests go before rules.
create index erased_sessions_open on fleetline.erased_sessions ((erasure is null), next_at) where wiped_at is null;
create index erased_sessions_of on fleetline.erased_sessions (tenant, erasure) where wiped_at is null and erasure is not null;
create index erased_sessions_wiped on fleetline.erased_sessions (wiped_at) where wiped_at is not null;

-- How many days sessions are kept after their last message: those of an agent, or, under an empty name, all others of the tenant.
create table fleetline.retention (
  tenant int not null,
  keep_days int not null check (keep_days > 0),
  agent text not null,
  primary key (tenant, agent));
-- How far the sessions of a tenant have been looked at, and when the next round may begin.
create table fleetline.retention_progress (
  next_at timestamptz not null default '-infinity',
  last_session uuid not null default '00000000-0000-0000-0000-000000000000',
  tenant int primary key);
