-- Agents behind a URL. The secret that signs their calls is stored sealed: what reads the table alone cannot sign.
create table fleetline.agents (
  tenant int not null,
  name text not null,
  url text not null,
  secret bytea not null,
  created_at timestamptz not null default now(),
  primary key (tenant, name));
