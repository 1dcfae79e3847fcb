-- pods from: 17
-- Issuers of others whose tokens are accepted. A token names its issuer before its tenant is known, so an issuer is found by what
-- the token says. Each one is bound to one tenant.
create table fleetline.issuers (
  id int generated always as identity primary key,
  name text not null unique,
  tenant int not null,
  issuer text not null,
  audience text not null,
  jwks_url text not null,
  algorithms text[] not null,
  max_age_seconds int not null,
  created_at timestamptz not null default now(),
  unique (issuer, audience));
