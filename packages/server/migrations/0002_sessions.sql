-- The log: tenants, sessions, members, messages. The tenant stands first in every key. No foreign keys: one folder of
-- the sources writes these rows, and a check per row would lock the parent for every message.
create table fleetline.tenants (
  id int generated always as identity primary key,
  name text not null unique);
insert into fleetline.tenants (name) values ('dev');

-- Every append changes head and updated_at: no index holds them, and a page has room for the next version of a row, so
-- that the update touches no index (HOT).
create table fleetline.sessions (
  updated_at timestamptz not null default now(),
  created_at timestamptz not null default now(),
  id uuid not null,
  tenant int not null,
  head int not null default 0,
  title text,
  primary key (tenant, id))
  with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

create table fleetline.members (
  session uuid not null,
  tenant int not null,
  user_id text not null,
  primary key (tenant, session, user_id));

-- key: 16 bytes of SHA-256 of the message id, a third less index than the id itself; digest: 8 bytes of SHA-256 of the
-- content, which tells a repeat from another message under the same id.
create table fleetline.messages (
  at timestamptz not null,
  digest bigint not null,
  session uuid not null,
  key uuid not null,
  tenant int not null,
  seq int not null,
  role smallint not null,
  author_kind smallint not null,
  id text not null,
  author text,
  body jsonb not null,
  primary key (tenant, session, seq),
  unique (tenant, session, key))
  with (autovacuum_vacuum_insert_scale_factor = 0.05);
