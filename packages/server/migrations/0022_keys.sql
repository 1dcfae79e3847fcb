-- pods from: 17
-- API keys. A request names a key before its tenant is known, so a key is found by its id alone. Of the key itself only a digest
-- is stored. Keys without a tenant are those of operators. A key that has ended stays for a while, so that people see who had it.
create table fleetline.api_keys (
  id text primary key,
  tenant int,
  name text not null,
  digest bytea not null,
  scopes text[] not null,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null,
  revoked_at timestamptz);
-- The keys of one owner: 0 for operators, because a search for null uses no index with an equality.
create index on fleetline.api_keys (coalesce(tenant, 0), name);

alter table fleetline.tenants add column created_at timestamptz not null default now();
