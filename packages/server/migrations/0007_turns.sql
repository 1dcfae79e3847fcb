-- Conversations. A session with an agent is one; without, it is a plain log and these stay as they are. asked: the last seq
-- that wants a reply. answered: the last that an ended turn had read. epoch and turn name the turn that is live. All of it
-- changes under the session's lock, and no index holds any of it.
alter table fleetline.sessions
  add column agent text,
  add column turn uuid,
  add column asked int not null default 0,
  add column answered int not null default 0,
  add column epoch int not null default 0;

-- Of an agent's reply: the turn that wrote it, and the last seq that it answers.
alter table fleetline.messages
  add column turn uuid,
  add column answers int;

-- What the conversation decided about a turn. Who runs it, and how often, says the task of the same id. ended_by is the
-- attempt that ended it: who lost the answer finds here whether it was its own.
create table fleetline.turns (
  started_at timestamptz not null,
  ended_at timestamptz,
  id uuid not null,
  session uuid not null,
  tenant int not null,
  epoch int not null,
  read_from int not null,
  read_to int,
  ended_by int,
  agent text not null,
  outcome text check (outcome in ('done', 'failed')),
  error jsonb,
  primary key (tenant, id),
  check ((ended_at is null) = (outcome is null)))
  with (fillfactor = 85);
create unique index turns_live on fleetline.turns (tenant, session) where ended_at is null;
create index turns_session on fleetline.turns (tenant, session, id);

-- The track of turns. Its shape is none of a plain task: nobody enqueues into it by name, and no handler claims from it.
insert into fleetline.queues (name) values ('turns') on conflict do nothing;
insert into fleetline.tracks (queue, machine, shape, max_attempts)
  select id, 'turn', 'session', 32767 from fleetline.queues where name = 'turns';
